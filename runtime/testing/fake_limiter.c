// Stands for libkrux.so in the tests of the runtime.
int krux_fake_limiter(void);
int krux_fake_limiter(void) { return 1; }
