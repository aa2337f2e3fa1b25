//go:build !crashpoints

package main

import "time"

// crashStep is nothing in a program that pays: no environment can kill it.
func crashStep() func(string) { return nil }

// clock is the device's.
func clock() func() time.Time { return time.Now }
