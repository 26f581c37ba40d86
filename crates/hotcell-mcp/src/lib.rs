//! The Model Context Protocol: a toolbox for any agent that speaks it.
