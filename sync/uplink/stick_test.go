package uplink

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// carried is a terminal with no network and a stick for it.
type carried struct {
	*link
	stick string
	take  StickOptions
}

// carry writes a stick by hand with what the fake central would serve, descriptors too.
func carry(t *testing.T, l *link) *carried {
	t.Helper()
	c := &carried{link: l, stick: t.TempDir()}
	c.take = StickOptions{Dir: c.stick, Identity: l.opt.Identity, Blocks: l.opt.Blocks}
	return c
}

func (c *carried) write(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(c.stick, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (c *carried) fill(t *testing.T) {
	t.Helper()
	c.write(t, wire.StickSnapshot, c.note(c.snapshot.Text()))
	for name, content := range c.fake.blocks {
		c.write(t, filepath.Join(wire.StickBlocks, name+blockSuffix), content)
	}
	for name, text := range c.pieces {
		c.write(t, filepath.Join(wire.StickBlocks, name+piecesSuffix), []byte(text))
	}
}

// TestStickBringsWhatTheLinkWouldWithTheSameChecks: the daemon stands still or runs, and
// there is no network.
func TestStickBringsWhatTheLinkWouldWithTheSameChecks(t *testing.T) {
	for _, running := range []bool{false, true} {
		bubble(t, func(t *testing.T, l *link) {
			first, second := noise(wire.PieceSize+77), noise(500)
			a, b := l.publish(first), l.publish(second)
			l.describe(func(*wire.Pieces) {})
			l.net.cut(true)
			c := carry(t, l)
			c.fill(t)
			if running {
				l.start()
				pass(time.Minute)
			}
			r, err := TakeStick(t.Context(), c.take)
			if err != nil || r.Snapshot != 2 || len(r.Taken) != 2 || len(r.Missing) != 0 {
				t.Fatalf("%+v %v", r, err)
			}
			if running {
				if err := l.uplink.Reread(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				l.start()
			}
			pass(2 * time.Minute)
			l.visible(a, first)
			l.visible(b, second)
			l.inForce(2)
			if f := l.fault(LaneFiles); f.Code != CodeUnreachable {
				t.Errorf("%+v", f)
			}
			again, err := TakeStick(t.Context(), c.take)
			if err != nil || len(again.Taken) != 0 {
				t.Errorf("again: %+v %v", again, err)
			}
		})
	}
}

// TestStickThatMayNotBeBelievedChangesNothing.
func TestStickThatMayNotBeBelievedChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, c *carried)
		want  error
	}{
		"no snapshot": {func(t *testing.T, c *carried) { _ = os.Remove(filepath.Join(c.stick, wire.StickSnapshot)) }, ErrStick},
		"of another key": {func(t *testing.T, c *carried) {
			c.signer = strangeSigner()
			c.write(t, wire.StickSnapshot, c.note(c.snapshot.Text()))
		}, ErrSignature},
		"edited": {func(t *testing.T, c *carried) {
			c.write(t, wire.StickSnapshot, bytes.Replace(c.note(c.snapshot.Text()), []byte("version 1"), []byte("version 9"), 1))
		}, ErrSignature},
		"half": {func(t *testing.T, c *carried) { c.write(t, wire.StickSnapshot, c.note(c.snapshot.Text())[:100]) }, ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *link) {
				l.publish(noise(1000))
				s := carry(t, l)
				s.fill(t)
				c.spoil(t, s)
				if r, err := TakeStick(t.Context(), s.take); !errors.Is(err, c.want) || len(r.Taken) != 0 {
					t.Errorf("%+v %v", r, err)
				}
				if left, err := filepath.Glob(filepath.Join(l.opt.Blocks.Dir, "*")); err != nil || len(left) > 0 {
					t.Errorf("%q is in the folder, %v", left, err)
				}
			})
		})
	}
}

// TestOldStickIsRefused: what the link or a newer stick has brought stays.
func TestOldStickIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.publish(noise(1000))
		old := carry(t, l)
		old.fill(t)
		l.publish(noise(2000))
		l.start()
		pass(time.Second)
		l.inForce(2)
		if _, err := TakeStick(t.Context(), old.take); !errors.Is(err, ErrOldSnapshot) {
			t.Errorf("%v", err)
		}
		if noted, err := l.opt.Blocks.noted(snapshotFile, wire.MaxAnswer); err != nil || !strings.Contains(noted, "\nversion 2\n") {
			t.Errorf("noted is %q, %v", noted, err)
		}
	})
}

// TestBadFileOnAStickIsNamedAndStopsNoOther: whatever is wrong with it, and with or
// without its descriptor.
func TestBadFileOnAStickIsNamedAndStopsNoOther(t *testing.T) {
	content := noise(wire.PieceSize + 5)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, c *carried, path string)
		want  error
	}{
		"a flipped bit": {func(t *testing.T, c *carried, path string) {
			b := bytes.Clone(content)
			b[wire.PieceSize+1] ^= 1
			c.write(t, path, b)
		}, ErrBlock},
		"cut short":      {func(t *testing.T, c *carried, path string) { c.write(t, path, content[:1000]) }, ErrStick},
		"empty":          {func(t *testing.T, c *carried, path string) { c.write(t, path, nil) }, ErrStick},
		"a link outside": {func(t *testing.T, c *carried, path string) { c.link2(t, path, content) }, nil},
		"absent":         {func(t *testing.T, c *carried, path string) { _ = os.Remove(filepath.Join(c.stick, path)) }, nil},
	} {
		for _, described := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, l *link) {
					bad := l.publish(content)
					other := noise(700)
					good := l.publish(other)
					if described {
						l.describe(func(*wire.Pieces) {})
					}
					s := carry(t, l)
					s.fill(t)
					c.spoil(t, s, filepath.Join(wire.StickBlocks, bad+blockSuffix))
					r, err := TakeStick(t.Context(), s.take)
					if !errors.Is(err, c.want) || len(r.Taken) != 1 || len(r.Missing) != 1 || err != nil && !strings.Contains(err.Error(), bad[:8]) {
						t.Fatalf("%+v %v", r, err)
					}
					l.absent(l.path(bad, blockSuffix))
					if got, err := os.ReadFile(l.path(good, blockSuffix)); err != nil || !bytes.Equal(got, other) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
					s.fill(t) // another stick
					if _, err := TakeStick(t.Context(), s.take); name != "a link outside" && err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// link2 puts a symbolic link that leads out of the stick in a file's place.
func (c *carried) link2(t *testing.T, path string, content []byte) {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "outside")
	whole := filepath.Join(c.stick, path)
	if err := errors.Join(os.WriteFile(outside, content, 0o600), os.Remove(whole), os.Symlink(outside, whole)); err != nil {
		t.Fatal(err)
	}
}

// TestStickGoesByTheQuotaAndTheDisk: own packs first, and a full disk has its name.
func TestStickGoesByTheQuotaAndTheDisk(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		own, young := l.publish(noise(6000)), l.publish(noise(7000))
		s := carry(t, l)
		s.fill(t)
		s.take.Packs = []wire.PackItem{{GameCode: "00399", First: 5, Last: 6, State: "active"}}
		s.take.Blocks.Quota = 8000
		s.take.Blocks.allocate = func(*os.File, int64) error { return unix.ENOSPC }
		if _, err := TakeStick(t.Context(), s.take); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v", err)
		}
		s.take.Blocks.allocate = nil
		r, err := TakeStick(t.Context(), s.take)
		if err != nil || len(r.Taken) != 1 || r.Taken[0].SHA256 != own || len(r.Missing) != 1 || r.Missing[0].Why != WhyQuota {
			t.Errorf("%+v %v", r, err)
		}
		l.absent(l.path(young, blockSuffix))
		s.take.Floor = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		l.update(func() {
			l.snapshot.Version++
			l.snapshot.Blocks[0].DropAfter = policy.Date{Year: 2026, Month: 12, Day: 31}
		})
		s.fill(t)
		if r, err = TakeStick(t.Context(), s.take); err != nil || len(r.Taken) != 1 || r.Taken[0].SHA256 != young {
			t.Errorf("after its day: %+v %v", r, err)
		}
		l.absent(l.path(own, blockSuffix))
	})
}

// TestStickOfCentralIsTaken is both ends of a stick: central's own, with a block that it
// has sealed and a pulled-out stick in between.
func TestStickOfCentralIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		if _, err := r.real.Deliver(t.Context(), "00399", 10, 19, "T-1"); err != nil {
			t.Fatal(err)
		}
		const games = "the catalogue of central's games"
		if _, err := r.real.PublishCatalogue(t.Context(), []byte(games), 3, "ops"); err != nil {
			t.Fatal(err)
		}
		stick := t.TempDir()
		took := StickOptions{Dir: stick, Identity: r.opt.Identity, Blocks: r.opt.Blocks}
		var copied int64
		s, err := r.real.WriteStick(t.Context(), stick, central.StickOrder{Terminals: []string{"T-1"}, Progress: func(n int64) { copied += n }})
		if err != nil || s.Blocks != 1 || s.Copied != 1 || copied != s.Bytes || s.Peppers != 0 {
			t.Fatalf("%+v %v", s, err)
		}
		if again, err := r.real.WriteStick(t.Context(), stick, central.StickOrder{}); err != nil || again.Blocks != 1 || again.Copied != 0 {
			t.Errorf("again: %+v %v", again, err)
		}
		if _, err := r.real.WriteStick(t.Context(), stick, central.StickOrder{Terminals: []string{"T-2"}}); !errors.Is(err, central.ErrNotFound) {
			t.Errorf("for nobody: %v", err)
		}
		file := filepath.Join(stick, wire.StickCatalogue)
		if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := TakeStick(t.Context(), took)
		if !errors.Is(err, ErrCatalogue) || len(got.Taken) != 1 || got.Taken[0].Pieces == "" {
			t.Fatalf("with a catalogue that was changed: %+v %v", got, err)
		}
		if err := os.WriteFile(file, []byte(games), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err = TakeStick(t.Context(), took); err != nil || len(got.Taken) != 0 || len(got.Missing) != 0 {
			t.Fatalf("%+v %v", got, err)
		}
		u := must(New(r.opt))
		if err := u.Reread(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text, err := u.Catalogue(); err != nil || string(text) != games {
			t.Errorf("the catalogue is %q %v", text, err)
		}
		if err := os.Remove(filepath.Join(stick, wire.StickSnapshot)); err != nil {
			t.Fatal(err)
		}
		if _, err := TakeStick(t.Context(), took); !errors.Is(err, ErrStick) {
			t.Errorf("pulled out early: %v", err)
		}
	})
}
