package testenv

import "syscall"

// endWithParent lets the kernel kill the child when the thread that started it ends,
// which includes any death of the test binary.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
