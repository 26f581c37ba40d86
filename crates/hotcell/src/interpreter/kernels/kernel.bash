# A shell that keeps variables, functions and its directory between pieces of code. See docs/interpreter.md.
#
# The first line of input is the marker of frames. Each request is a line with its number, then the code and a zero byte. It keeps running code,
# runs it once, or once with the rest of its input as the code's (`keep`, `once`, `read`): bash reads byte by byte, and so stops there.
# An interrupt ends the shell: there is no honest way to leave only the code that it runs.
#
# These lines are joined into one before bash gets them, because it counts the code's lines from that of `eval`. What the code turned
# on (`set -eux`) holds for code only, and nothing of the kernel is traced. `builtin`, because the code may have functions of these names;
# what a DEBUG trap of the code's says about the kernel's own commands goes nowhere. A function `builtin` that does not do what it is called after
# is taken away again: in the mode of POSIX, which a variable turns on, `unset` and `exit` cannot be functions.
exec {__hotcell_in}<&0 {__hotcell_out}>&1 {__hotcell_err}>&2;
[[ $1 == read ]] || exec </dev/null;
IFS= read -r -u "$__hotcell_in" __hotcell_marker || exit 0;
__hotcell_mode=$1 __hotcell_options=;
shift;
printf '%s.{"type":"ready"}\n' "$__hotcell_marker" >&"$__hotcell_out";
while { IFS= builtin read -r -u "$__hotcell_in" __hotcell_id && IFS= builtin read -r -d '' -u "$__hotcell_in" __hotcell_code
    && builtin printf '%s.{"type":"begin","id":%d}\n' "$__hotcell_marker" "$__hotcell_id" >&"$__hotcell_out"; } >/dev/null 2>&1; do
    builtin eval "${__hotcell_options:+builtin set -$__hotcell_options;}$__hotcell_code";
    {
        __hotcell_status=$? __hotcell_options=${-//[^eufvx]/} __hotcell_own=;
        builtin eval '__hotcell_own=1' || __hotcell_own=;
        [[ -n $__hotcell_own ]] || { POSIXLY_CORRECT=1; unset -f builtin || exit 70; unset POSIXLY_CORRECT; };
        builtin set +eufvx;
        case $__hotcell_status in 0) __hotcell_word=done ;; *) __hotcell_word=failed ;; esac;
        builtin printf '%s.{"type":"done","id":%d,"status":"%s","exit_code":%d}\n'
            "$__hotcell_marker" "$__hotcell_id" "$__hotcell_word" "$__hotcell_status" >&"$__hotcell_out";
        builtin printf '%s.{"type":"end","id":%d}\n' "$__hotcell_marker" "$__hotcell_id" >&"$__hotcell_err";
        [[ $__hotcell_mode == keep ]] || builtin break;
    } >/dev/null 2>&1;
done;
builtin exit "${__hotcell_status:-0}"
