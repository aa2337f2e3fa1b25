package flash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/validate/manifest"
)

const cardSize = 20 * unit

// probed is how many writes come before those of the image: the blank start, the mark, and
// the 17 places of the probe, twice. It does not look at the tenth MiB.
const probed = 2 + 2*17

// holds tells whether a card holds the image, and nothing of what it held before.
func holds(t *testing.T, c *fakeCard, raw []byte) {
	t.Helper()
	_ = c.Sync()
	if !bytes.Equal(c.kept[:len(raw)], raw) {
		t.Error("the card does not hold the image")
	}
	if !zeros(c.kept[cardSize-unit:]) {
		t.Error("the last MiB of the card, where another table of partitions may lie, is not zero")
	}
}

// TestCardHoldsTheImageAndNothingOld: old content shows nowhere in the image, the first
// MiB is blanked first and written last, after all else was read back.
func TestCardHoldsTheImageAndNothingOld(t *testing.T) {
	w := newWorld(t)
	im, c := w.open(t), newCard(cardSize, 0xa5)
	var phases []Phase
	readBack := false
	c.onWrite = func(b []byte, off int64) (int, error) {
		if off == 0 && len(phases) > 1 && !readBack {
			t.Error("the first MiB was written before the rest was read back")
		}
		return -1, nil
	}
	job := Job{Image: im, Medium: c, Card: Card{"S1", c.Size()}, Journals: t.TempDir(), Tell: func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		readBack = p.Phase == PhaseVerify && p.Done == p.Total
		if p.Done > p.Total {
			t.Errorf("%+v", p)
		}
	}}
	r, err := Write(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, c, w.raw)
	if want := []Phase{PhaseProbe, PhaseWrite, PhaseVerify}; !equal(phases, want) {
		t.Errorf("passes %q, want %q", phases, want)
	}
	if r.Written != 6*unit || r.Verified != im.Size-unit || r.Zeroed == 0 || r.Resumed != 0 {
		t.Errorf("%+v", r)
	}
	if c.first[0] != 0 || c.first[1] != markAt || c.first[len(c.first)-1] != 0 {
		t.Errorf("writes began at %v and ended at %d", c.first[:2], c.first[len(c.first)-1])
	}
	if left, _ := os.ReadDir(job.Journals); len(left) != 0 {
		t.Errorf("a journal is left: %v", left)
	}
	if r, err := Verify(t.Context(), job); err != nil || r.Verified != im.Size {
		t.Errorf("verify: %+v %v", r, err)
	}
	c.now[8*unit+77] ^= 4
	if _, err := Verify(t.Context(), job); codeOf(err) != codeDiffers || !strings.Contains(err.Error(), fmt.Sprint(8*unit)) {
		t.Errorf("verify of a changed card: %v", err)
	}
	small := job
	small.Medium = newCard(14*unit, 0)
	if _, err := Write(t.Context(), small); codeOf(err) != codeSmall || small.Medium.(*fakeCard).writes > 0 {
		t.Errorf("too small: %v", err)
	}
}

// TestEveryFaultIsNamedAndLeavesNoBootableCard: the matrix. What was not the card's own
// fault goes on where it was.
func TestEveryFaultIsNamedAndLeavesNoBootableCard(t *testing.T) {
	w := newWorld(t)
	im := w.open(t)
	past := func(at int64, err error) func(*fakeCard) {
		return func(c *fakeCard) {
			c.onWrite = func(_ []byte, off int64) (int, error) {
				if c.writes >= probed && off >= at {
					return 0, err
				}
				return -1, nil
			}
		}
	}
	wrap := func(real int64) func(*fakeCard) {
		return func(c *fakeCard) { c.where = func(off int64) int64 { return off % real } }
	}
	flipRead := func(bit byte) func(*fakeCard) {
		return func(c *fakeCard) {
			c.onRead = func(b []byte, off int64) error {
				if off <= 2*unit && off+int64(len(b)) > 2*unit && c.writes >= probed {
					b[2*unit-off] ^= bit
				}
				return nil
			}
		}
	}
	for _, f := range []struct {
		name, code string
		burnIn     bool
		resumes    bool
		plant      func(*fakeCard)
	}{
		{"full", codeFull, false, true, past(8*unit, unix.ENOSPC)},
		{"EIO at writing", codeIO, false, true, past(5*unit, unix.EIO)},
		{"EIO at reading back", codeIO, false, true, func(c *fakeCard) {
			c.onRead = func(_ []byte, off int64) error {
				if off == unit && c.writes > probed {
					return unix.EIO
				}
				return nil
			}
		}},
		{"pulled out", codeGone, false, true, func(c *fakeCard) {
			c.onWrite = func(_ []byte, off int64) (int, error) {
				if off == 5*unit && c.writes >= probed {
					c.pull()
					return 0, unix.EIO // what many readers say
				}
				return -1, nil
			}
		}},
		{"unplugged with its reader", codeGone, false, true, past(5*unit, unix.ENODEV)},
		{"short write", codeIO, false, true, func(c *fakeCard) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if off == 5*unit && c.writes >= probed {
					return len(b) - sector, nil
				}
				return -1, nil
			}
		}},
		{"locks itself", codeReadOnly, false, false, func(c *fakeCard) {
			c.onWrite = func([]byte, int64) (int, error) { return 0, unix.EROFS }
		}},
		{"takes writes and keeps none", codeDiffers, false, false, func(c *fakeCard) {
			c.onWrite = func(b []byte, _ int64) (int, error) { return len(b), nil }
		}},
		{"bit flipped at writing", codeDiffers, false, false, func(c *fakeCard) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if off == 8*unit && c.writes >= probed {
					b[5] ^= 1
				}
				return -1, nil
			}
		}},
		{"bit flipped at reading", codeDiffers, false, false, flipRead(8)},
		{"old content in a hole", codeDiffers, false, false, func(c *fakeCard) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if off == 9*unit && zeros(b) && c.writes >= probed {
					return len(b), nil
				}
				return -1, nil
			}
		}},
		{"fake capacity that wraps", codeFake, false, false, wrap(8 * unit)},
		{"fake capacity that drops", codeFake, false, false, func(c *fakeCard) {
			c.where = func(off int64) int64 {
				if off >= 7*unit {
					return -1
				}
				return off
			}
		}},
		{"fake capacity by one MiB, with a burn-in", codeFake, true, false, wrap(19 * unit)},
		{"addresses mixed up after the probe", codeFake, false, false, func(c *fakeCard) {
			c.where = func(off int64) int64 {
				if off >= 8*unit && off < 9*unit && c.writes >= probed {
					return off - 3*unit
				}
				return off
			}
		}},
		{"worn", codeWorn, true, false, func(c *fakeCard) {
			c.onRead = func(b []byte, off int64) error {
				if off <= 11*unit && off+int64(len(b)) > 11*unit {
					b[11*unit-off+99] ^= 1
				}
				return nil
			}
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			c := newCard(cardSize, 0xa5)
			job := Job{Image: im, Medium: c, Card: Card{"S1", c.Size()}, Journals: t.TempDir(), BurnIn: f.burnIn, every: unit}
			f.plant(c)
			_, err := Write(t.Context(), job)
			if codeOf(err) != f.code {
				t.Fatalf("%v, want %s", err, f.code)
			}
			if c.Sync(); f.code != codeReadOnly && f.name != "takes writes and keeps none" && !zeros(c.kept[:512]) {
				t.Error("the card has a table of partitions")
			}
			if !f.resumes && f.code != codeWorn && f.code != codeReadOnly {
				return // it begins anew, as those two do
			}
			c.mend()
			r, err := Write(t.Context(), job)
			if err != nil || r.Resumed > 0 != f.resumes {
				t.Fatalf("afterwards: %+v %v", r, err)
			}
			holds(t, c, w.raw)
		})
	}
}

// TestAnotherCardInTheSameReaderIsWrittenWhole: a reader's serial does not tell cards
// apart, and a card that was used meanwhile is another one.
func TestAnotherCardInTheSameReaderIsWrittenWhole(t *testing.T) {
	w := newWorld(t)
	im, job := w.open(t), Job{Card: Card{"READER", cardSize}, Journals: t.TempDir(), every: unit}
	job.Image = im
	cut := func(c *fakeCard) {
		c.onWrite = func(_ []byte, off int64) (int, error) {
			if off == 5*unit && c.writes >= probed {
				c.pull()
				return 0, unix.ENODEV
			}
			return -1, nil
		}
		job.Medium = c
		if _, err := Write(t.Context(), job); codeOf(err) != codeGone {
			t.Fatal(err)
		}
		c.mend()
	}
	first, second := newCard(cardSize, 0xa5), newCard(cardSize, 0x5a)
	cut(first)
	job.Medium = second
	if r, err := Write(t.Context(), job); err != nil || r.Resumed != 0 {
		t.Errorf("another card: %+v %v", r, err)
	}
	holds(t, second, w.raw)

	cut(first)
	copy(first.now[2*unit:], "written by somebody else") // inside what the journal calls done
	job.Medium = first
	r, err := Write(t.Context(), job)
	if err != nil || r.Resumed == 0 || r.Written <= 3*unit {
		t.Errorf("a card that was changed: %+v %v", r, err)
	}
	holds(t, first, w.raw)
}

// TestSilentDriveIsNamedThenGivenUp: a pause of 40 s is told and outlived; a drive that
// never answers is given up, and so is the wait when a person stops the tool.
func TestSilentDriveIsNamedThenGivenUp(t *testing.T) {
	w := newWorld(t)
	run := func(pause time.Duration, stopAfter time.Duration) (told time.Duration, took time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c, end := newCard(cardSize, 0), make(chan struct{})
			c.onWrite = func(_ []byte, off int64) (int, error) {
				if off == 8*unit && c.writes >= probed {
					if stopAfter > 0 {
						time.AfterFunc(stopAfter, stop)
					}
					select {
					case <-time.After(pause):
					case <-end:
					}
				}
				return -1, nil
			}
			im, began := w.open(t), time.Now()
			_, err = Write(ctx, Job{Image: im, Medium: c, Tell: func(p Progress) { told = max(told, p.Silent) }})
			took = time.Since(began)
			close(end)
		})
		return told, took, err
	}
	if told, _, err := run(40*time.Second, 0); err != nil || told != 30*time.Second && told != 40*time.Second {
		t.Errorf("a pause: told %v, %v", told, err)
	}
	if told, took, err := run(time.Hour, 0); codeOf(err) != codeStalled || told != silentMost-silentAfter || took != silentMost {
		t.Errorf("silence: told %v, after %v: %v", told, took, err)
	}
	if _, took, err := run(time.Hour, time.Second); !errors.Is(err, context.Canceled) || took != time.Second+silentAfter {
		t.Errorf("stopped: after %v: %v", took, err)
	}
}

// TestBurnInTellsASlowCard, and the speed and the time that is left are what a clock says.
func TestBurnInTellsASlowCard(t *testing.T) {
	w := newWorld(t)
	run := func(perMiB time.Duration) (r Result, last Progress) {
		synctest.Test(t, func(t *testing.T) {
			c := newCard(cardSize, 0)
			c.onWrite = func(b []byte, _ int64) (int, error) {
				time.Sleep(perMiB * time.Duration(len(b)) / unit)
				return -1, nil
			}
			var err error
			r, err = Write(t.Context(), Job{Image: w.open(t), Medium: c, BurnIn: true, Tell: func(p Progress) {
				if p.Phase == PhaseBurn && p.Done > 0 && p.Done < p.Total {
					last = p
				}
			}})
			if err != nil {
				t.Error(err)
			}
		})
		return r, last
	}
	if r, p := run(50 * time.Millisecond); r.Slow || int(p.Speed) != 20*unit || p.Left != time.Duration(p.Total-p.Done)*50*time.Millisecond/unit || int(r.Speed) != 20*unit {
		t.Errorf("20 MiB/s: %+v %+v", r, p)
	}
	if r, _ := run(time.Second); !r.Slow {
		t.Errorf("1 MiB/s: %+v", r)
	}
}

// TestKilledToolGoesOn: kill -9 in the middle of a real file, then the same job.
func TestKilledToolGoesOn(t *testing.T) {
	const child, key = "GRATTOIR_TEST_FLASH", "GRATTOIR_TEST_FLASH_KEY"
	if folder := os.Getenv(child); folder != "" {
		ring, err := manifest.NewKeys(1, os.Getenv(key))
		if err != nil {
			t.Fatal(err)
		}
		writeUntil(t, folder, ring)
		return
	}
	w, folder := newWorld(t), t.TempDir()
	for _, suffix := range []string{ImageSuffix, MapSuffix, ManifestSuffix} {
		from := strings.TrimSuffix(w.path, ImageSuffix) + suffix
		if err := os.Rename(from, filepath.Join(folder, "card"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	w.path = filepath.Join(folder, "card"+ImageSuffix)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledToolGoesOn$")
	cmd.Env = append(os.Environ(), child+"="+folder, key+"="+w.public)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "here" {
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	c, err := OpenFile(filepath.Join(folder, "card.img"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := Write(t.Context(), Job{Image: w.open(t), Medium: c, Card: Card{"card.img", c.Size()}, Journals: folder, every: unit})
	if err != nil || r.Resumed < 3*unit || r.Written >= 4*unit {
		t.Errorf("%+v %v", r, err)
	}
	if got, err := os.ReadFile(filepath.Join(folder, "card.img")); err != nil || !bytes.Equal(got[:len(w.raw)], w.raw) {
		t.Errorf("the file does not hold the image: %v", err)
	}
}

// blocking is a medium that says "here" at a write and never does it.
type blocking struct {
	Medium
	writes int
}

func (b *blocking) WriteAt(p []byte, off int64) (int, error) {
	if b.writes++; off == 8*unit && b.writes > probed {
		fmt.Println("here")
		_, _ = io.Copy(io.Discard, os.Stdin)
		select {}
	}
	return b.Medium.WriteAt(p, off)
}

func writeUntil(t *testing.T, folder string, ring manifest.Keys) {
	im, err := Open(t.Context(), filepath.Join(folder, "card"+ImageSuffix), ring, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenFile(filepath.Join(folder, "card.img"), cardSize)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Write(t.Context(), Job{Image: im, Medium: &blocking{Medium: c}, Card: Card{"card.img", c.Size()}, Journals: folder, every: unit})
	t.Fatal(err)
}

// TestEveryCodeHasItsWords: the table is whole, in order, and an error of the system finds
// its row.
func TestEveryCodeHasItsWords(t *testing.T) {
	for i, m := range Meanings() {
		if m.Code != fmt.Sprintf("F%d", i+1) || m.Name == "" || m.Text == "" || m.Hint == "" {
			t.Errorf("%+v", m)
		}
	}
	codes := []string{}
	for _, err := range []error{unix.EIO, unix.ENOMEDIUM, unix.EBUSY, unix.EACCES, fmt.Errorf("open: %w", unix.EROFS)} {
		codes = append(codes, codeOf(classify(err, "sdb", true)))
	}
	if want := []string{codeIO, codeGone, codeBusy, codeRights, codeReadOnly}; !slices.Equal(codes, want) {
		t.Errorf("%v, want %v", codes, want)
	}
}
