package sound

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/gpio"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// counter is a State that a test sets.
type counter struct {
	mu      sync.Mutex
	state   terminal.State
	changed chan struct{}
}

func (c *counter) State() (terminal.State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.changed
}

func (c *counter) show(v terminal.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.View = v
	close(c.changed)
	c.changed = make(chan struct{})
}

func verdict(id string, r validate.Reason, amount money.Amount) terminal.View {
	return terminal.View{ID: id, Stage: terminal.Verdict, Verdict: validate.Verdict{Outcome: r.Outcome(), Reason: r, AmountMinor: &amount}}
}

// samples reads a WAV file as a player does.
func samples(t *testing.T, wav []byte) []int16 {
	t.Helper()
	if len(wav) < 44 || string(wav[:4]) != "RIFF" || string(wav[8:16]) != "WAVEfmt " || string(wav[36:40]) != "data" ||
		int(binary.LittleEndian.Uint32(wav[4:])) != len(wav)-8 || int(binary.LittleEndian.Uint32(wav[40:])) != len(wav)-44 {
		t.Fatalf("no WAV file: % x", wav[:min(len(wav), 44)])
	}
	list := make([]int16, (len(wav)-44)/2)
	_ = binary.Read(bytes.NewReader(wav[44:]), binary.LittleEndian, list)
	return list
}

// tones are the tones of a sound by their length in ms and their pitch in Hz, told from
// the samples alone.
func tones(list []int16) (lasts, pitch []int) {
	begun, quiet, ups := -1, 0, 0
	end := func(i int) {
		if begun >= 0 {
			seconds := float64(i-begun) / rate
			lasts, pitch = append(lasts, int(seconds*1000)), append(pitch, int(float64(ups)/seconds))
		}
		begun, ups = -1, 0
	}
	for i, s := range list {
		if s == 0 {
			if quiet++; quiet > rate/50 {
				end(i - quiet)
			}
			continue
		}
		if quiet = 0; begun < 0 {
			begun = i
		}
		if i > 0 && list[i-1] <= 0 && s > 0 {
			ups++
		}
	}
	end(len(list))
	return lasts, pitch
}

func TestSoundsDifferInShapeAndAreShort(t *testing.T) {
	for signal, want := range map[gpio.Signal]int{gpio.Winning: 2, gpio.NoWin: 1, gpio.Refusing: 3, gpio.Asking: 3} {
		list := samples(t, Wave(signal, 100))
		lasts, pitch := tones(list)
		if len(lasts) != want || len(list) > rate*6/10 {
			t.Errorf("%s: tones of %v ms at %v Hz, %d samples", signal, lasts, pitch, len(list))
			continue
		}
		switch signal {
		case gpio.Winning:
			if pitch[1] < pitch[0]*5/4 {
				t.Errorf("a win does not rise: %v Hz", pitch)
			}
		case gpio.NoWin:
			if pitch[0] > 300 || lasts[0] > 250 {
				t.Errorf("no win is not low and short: %v ms, %v Hz", lasts, pitch)
			}
		default:
			if lasts[0]/10 != lasts[2]/10 || pitch[0]/20 != pitch[1]/20 {
				t.Errorf("%s: not three equal ones: %v ms, %v Hz", signal, lasts, pitch)
			}
		}
	}
	if Wave(gpio.Winning, 0) != nil || Wave(gpio.Quiet, 100) != nil || Wave(gpio.Paying, 100) != nil {
		t.Error("silence sounds")
	}
}

func TestVolumeScalesTheSound(t *testing.T) {
	peak := func(volume int) (top int) {
		for _, s := range samples(t, Wave(gpio.NoWin, volume)) {
			top = max(top, int(s))
		}
		return top
	}
	if whole, half := peak(100), peak(50); whole < 25000 || half < whole*45/100 || half > whole*55/100 || peak(1000) != whole {
		t.Errorf("peaks %d, %d, %d", whole, half, peak(1000))
	}
}

// TestEachViewSoundsOnceAndCutsTheOlderOff: whatever was won sounds the same, the status
// line sounds never, and neither does what was shown before the start.
func TestEachViewSoundsOnceAndCutsTheOlderOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{changed: make(chan struct{})}
		c.state.View = verdict("old", validate.Winner, 2000)
		var played [][]byte
		cut := 0
		p := &Player{Volume: 60, Log: slog.New(slog.DiscardHandler), Play: func(ctx context.Context, wav []byte) error {
			played = append(played, wav)
			select {
			case <-ctx.Done():
				cut++
			case <-time.After(500 * time.Millisecond):
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx, c) })
		synctest.Wait()
		show := func(v terminal.View) { c.show(v); synctest.Wait() }
		show(verdict("1", validate.Winner, 500))
		show(verdict("1", validate.Winner, 500)) // only the status line changed
		time.Sleep(time.Second)
		show(verdict("2", validate.Winner, 100000000))
		show(verdict("3", validate.NotAWinner, 0)) // at once: the win is cut off
		time.Sleep(time.Second)
		show(terminal.View{Stage: terminal.Idle})
		if len(played) != 3 || !bytes.Equal(played[0], played[1]) || bytes.Equal(played[1], played[2]) || cut != 1 {
			t.Errorf("%d sounds, %d cut off", len(played), cut)
		}
		show(verdict("4", validate.PackStolen, 0))
		cancel()
		running.Wait() // a stop cuts off too, and waits
		if cut != 2 {
			t.Errorf("%d cut off", cut)
		}
	})
}

// TestProgramGetsTheFileAndItsComplaintIsTold: what is wrong with the speaker is told once.
func TestProgramGetsTheFileAndItsComplaintIsTold(t *testing.T) {
	wav := Wave(gpio.NoWin, 50)
	if err := Program("sh", "-c", `test "$(wc -c)" -gt 1000`)(t.Context(), wav); err != nil {
		t.Error(err)
	}
	err := Program("sh", "-c", "cat >/dev/null; echo no such card >&2; exit 1")(t.Context(), wav)
	if err == nil || !strings.Contains(err.Error(), "no such card") {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := &Player{Log: slog.New(slog.NewTextHandler(&log, nil))}
	before := p.told("", err)
	p.told(before, err)
	if n := strings.Count(log.String(), "no such card"); n != 1 {
		t.Errorf("told %d times", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Program("sleep", "60")(gone, wav); err != nil {
		t.Errorf("a sound that a newer view cut off is an error: %v", err)
	}
}

// TestBuzzerSoundsWhereNoPlayerDoes: with a program that is not there, or plays on and on, the
// board's buzzer tells a win from no win all the same, at the same moment, and the log has the
// fault once.
func TestBuzzerSoundsWhereNoPlayerDoes(t *testing.T) {
	for name, play := range map[string]func(context.Context, []byte) error{
		"missing": func(context.Context, []byte) error { return errors.New("aplay: executable file not found") },
		"stuck":   func(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &counter{changed: make(chan struct{})}
			log := new(bytes.Buffer)
			pin := gpio.NewFake("buzzer")
			board := gpio.Open(gpio.Options{Config: gpio.Config{Buzzer: gpio.Output{Pin: "buzzer"}}, Find: gpio.Fakes(pin), Log: slog.New(slog.DiscardHandler), Faults: func([]*gpio.Fault) {}})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				(&Player{Play: play, Volume: 50, Log: slog.New(slog.NewTextHandler(log, nil))}).Run(ctx, c)
			})
			running.Go(func() { board.Run(ctx, c, nil) })
			synctest.Wait()
			ups := func(show terminal.View) (n int) {
				before := len(pin.Trace())
				c.show(show)
				time.Sleep(time.Second)
				synctest.Wait()
				for _, change := range pin.Trace()[before:] {
					if change.High {
						n++
					}
				}
				return n
			}
			if win, lose := ups(verdict("a", validate.Winner, 2000)), ups(verdict("b", validate.NotAWinner, 0)); win != 2 || lose != 1 {
				t.Errorf("%s: a win buzzes %d times, no win %d", name, win, lose)
			}
			cancel()
			running.Wait()
			if n := strings.Count(log.String(), "could not be played"); name == "missing" && n != 1 {
				t.Errorf("%d lines in the log: %s", n, log)
			}
			if err := board.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
