package server_test

import "syscall"

// endWithParent has the kernel kill a program when the thread that started it
// ends, which is when the test binary dies, however it does.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
