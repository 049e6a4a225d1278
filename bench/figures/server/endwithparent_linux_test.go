package server_test

import "syscall"

// endWithParent has the kernel kill a program when the thread that started it
// ends, and so when the test binary ends for any reason.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
