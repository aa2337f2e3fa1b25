//go:build crashpoints

package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// crashStep kills the program with SIGKILL at the step that GRATTOIR_CRASH names, as
// "step" or "step:n" for the nth time. Only test builds have it.
func crashStep() func(string) {
	at, count, _ := strings.Cut(os.Getenv("GRATTOIR_CRASH"), ":")
	nth, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		nth = 1
	}
	var seen atomic.Int64
	return func(step string) {
		if step == at && seen.Add(1) == nth {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // the signal is on its way; nothing after this step may happen
		}
	}
}

// clock is the device's, set off by the seconds in the file that GRATTOIR_CLOCK names,
// which is read at each look: a test sets the clock while the program runs.
func clock() func() time.Time {
	path := os.Getenv("GRATTOIR_CLOCK")
	return func() time.Time {
		text, err := os.ReadFile(path)
		if err != nil {
			return time.Now()
		}
		seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return time.Now()
		}
		return time.Now().Round(0).Add(time.Duration(seconds) * time.Second) // without its monotonic reading
	}
}
