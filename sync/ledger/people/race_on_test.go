//go:build race

package people

const raceEnabled = true
