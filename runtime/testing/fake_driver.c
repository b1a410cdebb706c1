// Stands for libcuda.so.1 in the tests of the runtime.
int krux_fake_driver(void);
int krux_fake_driver(void) { return 1; }
