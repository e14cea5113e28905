// Signals of the process.
#pragma once

namespace pion {

// Ignores SIGPIPE and SIGHUP, blocks SIGTERM and SIGINT in this thread and all that it starts (see wait_for_stop()), and
// installs the crash handler: it logs the signal and where it was, then lets the signal do its work (core dump, exit status).
// Before any thread starts.
void prepare_signals();

// Blocks until SIGTERM or SIGINT; which one.
int wait_for_stop();

}  // namespace pion
