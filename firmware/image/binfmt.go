package image

import (
	"os"

	"golang.org/x/sys/unix"
)

func mountBinfmt(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return unix.Mount("binfmt_misc", folder, "binfmt_misc", 0, "")
}
