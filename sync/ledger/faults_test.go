package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"grattoir/sync/ledger/powercut"
)

// faulty is a ledger with three claims over a disk that can be made to fail.
type faulty struct {
	*testing.T
	disk *powercut.Disk
	opt  Options
	l    *Ledger
}

func openFaulty(t *testing.T) *faulty {
	t.Helper()
	disk, err := powercut.New("faulty")
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{T: t, disk: disk, opt: options(t.TempDir())}
	f.opt.hooks.vfs = "faulty"
	t.Cleanup(func() {
		if err := errors.Join(f.l.Close(), disk.Close()); err != nil {
			t.Error(err)
		}
	})
	f.l, err = Open(context.Background(), f.opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		record(t, f.l, claim(t, i))
	}
	return f
}

// failAt makes the nth event of a kind fail, and everything after it too until mend.
func (f *faulty) failAt(kinds map[powercut.Kind]bool, nth, code int) {
	seen := 0
	f.disk.Inject(func(e powercut.Event) int {
		if kinds[e.Kind] {
			seen++
		}
		if seen >= nth && kinds[e.Kind] {
			return code
		}
		return 0
	})
}

func (f *faulty) mend() { f.disk.Inject(nil) }

// claims opens what a power cut may have left, and gives its claims.
func (f *faulty) claims(image powercut.Image) int64 {
	f.Helper()
	look, err := powercut.New("faulty-look")
	if err != nil {
		f.Fatal(err)
	}
	defer look.Close()
	if err := look.Load(image); err != nil {
		f.Fatal(err)
	}
	opt := options(f.TempDir())
	opt.hooks.vfs = "faulty-look"
	l := openTest(f, opt)
	defer l.Close()
	if err := intact(l, true); err != nil {
		f.Fatal(err)
	}
	c, err := l.Verify(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	return c.Claims
}

// TestDiskThatFailsAtAnyStepLeavesNoClaimInDoubt lets the disk be full, fail or be
// read-only from each step of a payment on, until it is mended. A payment that was
// acknowledged is durable; one that was not is never paid and there at once. On a disk
// that was only full, the same program pays again when there is room; after anything else
// it pays nothing more until it is started again.
func TestDiskThatFailsAtAnyStepLeavesNoClaimInDoubt(t *testing.T) {
	writes := map[powercut.Kind]bool{powercut.Write: true, powercut.Truncate: true}
	for _, c := range []struct {
		name  string
		kinds map[powercut.Kind]bool
		code  int
		pays  bool // again, without a restart
	}{
		{"full", writes, powercut.Full, true},
		{"write error", writes, powercut.IOErrWrite, false},
		{"sync error", map[powercut.Kind]bool{powercut.Sync: true}, powercut.IOErrSync, false},
		{"read-only", writes, powercut.ReadOnly, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := 0
			for nth := 1; nth <= 30; nth++ {
				t.Run(fmt.Sprint(nth), func(t *testing.T) {
					if failAndMend(t, c.kinds, nth, c.code, c.pays) {
						failed++
					}
				})
			}
			if failed == 0 || failed == 30 {
				t.Errorf("%d of 30 payments failed: the fault did not move through one", failed)
			}
		})
	}
}

func failAndMend(t *testing.T, kinds map[powercut.Kind]bool, nth, code int, pays bool) (failed bool) {
	ctx := context.Background()
	f := openFaulty(t)
	f.failAt(kinds, nth, code)
	_, err := f.l.Record(ctx, claim(t, 3))
	f.mend()
	if failed = err != nil; !failed {
		if n := f.claims(f.cut()); n != 4 {
			t.Fatalf("acknowledged, and after a cut there are %d claims", n)
		}
		return false
	}
	if !errors.Is(err, ErrNotWritable) {
		t.Errorf("the error is %v", err)
	}
	_, again := f.l.Record(ctx, claim(t, 4))
	switch {
	case again == nil && !pays:
		t.Error("the disk has failed, and the same program pays on")
	case again != nil && pays:
		t.Errorf("there is room again, and nothing is paid: %v", again)
	case again == nil && f.l.Writable() != nil:
		t.Error("it pays and says that it cannot")
	case again != nil && f.l.Writable() == nil:
		t.Errorf("it cannot pay and does not say so: %v", again)
	}
	// Whatever it was, the next program finds a whole ledger, and pays each ticket once.
	if err := f.l.Close(); err != nil && pays {
		t.Error(err)
	}
	if f.l, err = Open(ctx, f.opt); err != nil {
		t.Fatal(err)
	}
	_, err = f.l.Record(ctx, claim(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.l.Verify(ctx)
	want := int64(4)
	if again == nil {
		want++
	}
	if err != nil || got.Claims != want {
		t.Errorf("%d claims, want %d: %v", got.Claims, want, err)
	}
	if n := f.claims(f.cut()); n != want {
		t.Errorf("after a cut %d claims, want %d", n, want)
	}
	return true
}

// cut is the disk when everything that was not synced is lost, or by chance is not.
func (f *faulty) cut() powercut.Image {
	p := f.disk.Platter()
	for p.Next() {
	}
	return p.Image(rand.New(rand.NewPCG(uint64(p.At()), 1)), powercut.Hardware{})
}
