package gpio

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	periph "periph.io/x/conn/v3/gpio"
)

// The tests of Fake hold it to what was read and tried in the library, so that the other
// tests mean something.

func TestFakeWaitsForEverOnZeroAndNotAtAllBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake("GPIO17")
		if err := f.In(periph.PullUp, periph.BothEdges); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if f.WaitForEdge(-1) || time.Since(began) != 0 {
			t.Error("a negative time waited")
		}
		if f.WaitForEdge(time.Second) || time.Since(began) != time.Second {
			t.Error("a second without an edge took", time.Since(began))
		}
		got := make(chan bool)
		go func() { got <- f.WaitForEdge(0) }()
		time.Sleep(1000 * time.Hour)
		f.Drive(false)
		if !<-got {
			t.Error("the edge did not end the wait for ever")
		}
	})
}

func TestFakeKeepsSixteenEdgesAndInKeepsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake("GPIO17")
		must(t, f.In(periph.PullUp, periph.BothEdges))
		f.Bounce(false, 20)
		if f.Lost() != 25 {
			t.Errorf("%d edges lost, want 25 of 41", f.Lost())
		}
		must(t, f.In(periph.PullUp, periph.BothEdges))
		n := 0
		for f.WaitForEdge(time.Millisecond) {
			n++
		}
		if n != 16 {
			t.Errorf("%d edges came, want 16", n)
		}
	})
}

func TestFakeOutGlitchesAndReadTurnsAnOutputRound(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		f := NewFake("GPIO17")
		f.Mapped = mapped
		must(t, f.In(periph.PullUp, periph.NoEdge))
		must(t, f.Out(periph.High))
		must(t, f.Out(periph.High))
		var levels []bool
		for _, c := range f.Trace() {
			levels = append(levels, c.High)
		}
		if want := map[bool][]bool{false: {true, false, true}, true: {true}}[mapped]; !slices.Equal(levels, want) {
			t.Errorf("mapped %t: the wire had %v, want %v", mapped, levels, want)
		}
		f.Read()
		if f.IsOutput() != mapped {
			t.Errorf("mapped %t: after Read an output is %t", mapped, f.IsOutput())
		}
	}
}

func TestFakeHaltMovesOnlyTheWaitThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake("GPIO17")
		must(t, f.In(periph.PullUp, periph.BothEdges))
		must(t, f.Halt()) // no wait has begun: nothing to move
		began := time.Now()
		go func() {
			time.Sleep(300 * time.Millisecond)
			_ = f.Halt()
		}()
		if f.WaitForEdge(time.Hour) || time.Since(began) != 300*time.Millisecond {
			t.Error("Halt did not end the wait:", time.Since(began))
		}
		f.WaitForEdge(time.Second)
		if time.Since(began) != 1300*time.Millisecond {
			t.Error("the next wait was not whole:", time.Since(began))
		}
	})
}

func TestFakeFailsAsTold(t *testing.T) {
	f := NewFake("GPIO17")
	broken := errors.New("broken")
	f.Fail("out", broken, 1)
	if err := f.Out(periph.High); !errors.Is(err, broken) || f.IsOutput() {
		t.Error("no failure:", err)
	}
	must(t, f.Out(periph.High))
	must(t, f.In(periph.PullUp, periph.BothEdges))
	f.Fail("read", broken, -1)
	if f.Read() {
		t.Error("a failed read is not low, as the library's is")
	}
	f.Fail("wait", broken, 1)
	if f.WaitForEdge(0) {
		t.Error("a failed wait saw an edge")
	}
}

func TestLineNeverReadsAnOutputNorWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake("GPIO17")
		l := &line{Found: Found{Pin: f}, name: "GPIO17"}
		must(t, l.drive(true))
		if _, err := l.high(); !errors.Is(err, errNotInput) {
			t.Error("an output was read:", err)
		}
		if !f.IsOutput() || !f.Level() {
			t.Error("the output was turned round")
		}
		must(t, l.listen(PullUp))
		for _, d := range []time.Duration{0, -1, time.Millisecond} {
			began := time.Now()
			l.wait(d)
			if took := time.Since(began); took != time.Millisecond {
				t.Errorf("wait(%v) took %v", d, took)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
