package main

import (
	"testing"
	"time"
)

// TestACountryIsBackInThreeMinutesWithOneRefusalEach is the figure of the design, by the
// shipped code of both sides; the other ways fail it, so the model has teeth.
func TestACountryIsBackInThreeMinutesWithOneRefusalEach(t *testing.T) {
	ways := comebacks()
	ours := comeBack(ways[len(ways)-1], 30_000)
	t.Logf("%s: peak %d/s, %d refused, at most %d each, back in %v, %v, %v", ours.name, ours.peak, ours.refused, ours.mostRefused, ours.half, ours.most, ours.all)
	if ours.all > 180*time.Second || ours.mostRefused > 1 || len(ours.served) != 30_000 {
		t.Errorf("%d back in %v, at most %d refusals", len(ours.served), ours.all, ours.mostRefused)
	}
	if jittered := comeBack(ways[2], 30_000); jittered.all < 2*ours.all || jittered.mostRefused < 2 {
		t.Errorf("jitter before the cap does as well: %v, %d refusals", jittered.all, jittered.mostRefused)
	}
}
