"""What holds for all tests."""

import signal

import hypothesis

# A slow machine is no failure.
hypothesis.settings.register_profile("tailback", deadline=None)
hypothesis.settings.load_profile("tailback")

# A shell without job control starts its background with these ignored, and what is tried here would
# inherit it.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
