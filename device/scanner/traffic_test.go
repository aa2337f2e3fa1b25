package scanner

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// seeded is a source whose seed is printed, and taken from SCANNER_SEED to run again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SCANNER_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SCANNER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
