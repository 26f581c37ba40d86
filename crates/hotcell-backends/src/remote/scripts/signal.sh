# Sends a signal to the group of a command: SIGNAL PROCESS. Says `sent` or `gone`.
if kill "-$1" "-$2" 2>/dev/null; then echo sent; else echo gone; fi
