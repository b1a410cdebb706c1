// The program in the tests' tiny image: says what it finds in its container, one fact a line.
// It is linked to libc alone, like a CUDA program that loads its driver at run time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void SayFile(const char* name, const char* path) {
  char text[256] = "";
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (size < 0) {
    printf("%s=!%s\n", name, strerror(errno));
  } else {
    for (char* c = text; *c != '\0'; ++c) {
      if (*c == '\n') *c = '|';
    }
    printf("%s=%s\n", name, text);
  }
  if (fd >= 0) close(fd);
}

static void SayOpen(const char* name, const char* path, int flags) {
  const int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
  printf("%s=%s\n", name, fd >= 0 ? "ok" : strerror(errno));
  if (fd >= 0) close(fd);
}

int main(int argc, char** argv) {
  const char* visible = getenv("NVIDIA_VISIBLE_DEVICES");
  printf("visible=%s\n", visible == NULL ? "-" : visible);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  printf("driver=%s\n", driver != NULL && dlsym(driver, "krux_fake_driver") != NULL ? "ok" : "missing");
  printf("limiter=%s\n", dlsym(RTLD_DEFAULT, "krux_fake_limiter") != NULL ? "ok" : "missing");
  SayFile("preload", "/etc/ld.so.preload");
  SayFile("limits", "/run/krux/limits");
  SayOpen("write_limits", "/run/krux/limits", O_WRONLY);
  SayOpen("create_in_folder", "/run/krux/new", O_WRONLY | O_CREAT);
  SayOpen("write_sim", "/run/krux-sim/new", O_WRONLY | O_CREAT);
  if (argc > 1) SayOpen("device", argv[1], O_RDONLY);
  return 0;
}
