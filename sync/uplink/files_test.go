package uplink

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// noise is content that never repeats, so that a misplaced piece shows.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (l *link) path(name, suffix string) string {
	return filepath.Join(l.opt.Blocks.Dir, name+suffix)
}

func (l *link) visible(name string, want []byte) {
	l.t.Helper()
	got, err := os.ReadFile(l.path(name, blockSuffix))
	if err != nil || !bytes.Equal(got, want) {
		l.t.Fatalf("%d bytes, %v; faults %+v", len(got), err, l.uplink.Status().Faults)
	}
}

func (l *link) absent(path string) {
	l.t.Helper()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		l.t.Errorf("%s is there: %v", filepath.Base(path), err)
	}
}

func (l *link) inForce(want int64) {
	l.t.Helper()
	if got := l.uplink.Status().Snapshot; got != want {
		l.t.Fatalf("snapshot %d is in force, want %d; faults %+v", got, want, l.uplink.Status().Faults)
	}
}

func TestPublishedBlockBecomesVisibleAndOldOnesStay(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		first, second := noise(200_000), noise(300_000)
		a := l.publish(first)
		l.start()
		pass(time.Second)
		l.visible(a, first)
		l.inForce(1)
		b := l.publish(second)
		l.update(func() { l.snapshot.Blocks = l.snapshot.Blocks[1:] }) // the first is no longer listed
		pass(2 * time.Minute)
		l.visible(a, first)
		l.visible(b, second)
		l.inForce(2)
		if len(l.blocks) != 2 {
			t.Errorf("told of %d blocks", len(l.blocks))
		}
		if n := l.asked("GET " + wire.PathBlocks); n != 2 {
			t.Errorf("%d downloads", n)
		}
	})
}

func TestNothingPublishedIsNoFault(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.start()
		pass(time.Minute)
		if s := l.uplink.Status(); len(s.Faults) != 0 || s.Snapshot != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCutDownloadCostsAtMostOnePiece runs over the loopback: the server breaks off again
// and again, and the bytes it sent in all are the block and a piece for each cut.
func TestCutDownloadCostsAtMostOnePiece(t *testing.T) {
	l := join(t, newCentral(t), false)
	l.opt.RetryCap = time.Millisecond
	content := noise(5*wire.PieceSize + 4321)
	name := l.publish(content)
	var sent, cuts, whole atomic.Int64
	l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !strings.HasPrefix(r.URL.Path, wire.PathBlocks) {
			return false
		}
		from := int64(0)
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil {
			whole.Add(1)
		} else if r.Header.Get("If-Range") != `"`+name+`"` {
			t.Errorf("If-Range is %q", r.Header.Get("If-Range"))
		}
		rest := content[from:]
		w.Header().Set("Content-Length", fmt.Sprint(len(rest)))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
		}
		if n := wire.PieceSize*3/2 + 77; len(rest) > n {
			rest = rest[:n]
			cuts.Add(1)
			defer panic(http.ErrAbortHandler)
		}
		n, _ := w.Write(rest)
		sent.Add(int64(n))
		_ = http.NewResponseController(w).Flush()
		return true
	}
	l.start()
	<-l.blocks
	l.visible(name, content)
	if c := cuts.Load(); c < 3 || sent.Load() > int64(len(content))+c*wire.PieceSize || whole.Load() != 1 {
		t.Errorf("%d bytes sent of %d after %d cuts, begun from the start %d times", sent.Load(), len(content), c, whole.Load())
	}
}

// TestPartOfAnEarlierRunIsGoneOnWith: what a power cut may have spoiled is the piece
// begun last; what is before it is not fetched again.
func TestPartOfAnEarlierRunIsGoneOnWith(t *testing.T) {
	for _, have := range []int{0, 1, wire.PieceSize, 2*wire.PieceSize + 999, 3 * wire.PieceSize, 3*wire.PieceSize + 5} {
		bubble(t, func(t *testing.T, l *link) {
			content := noise(3*wire.PieceSize + 5)
			name := l.publish(content)
			part := append([]byte{}, content[:have]...)
			for i := max(0, have-1) / wire.PieceSize * wire.PieceSize; i < have; i++ {
				part[i] = 0 // never reached the disk
			}
			if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(l.path(name, partSuffix), part, 0o640); err != nil {
				t.Fatal(err)
			}
			l.start()
			pass(10 * time.Second)
			l.visible(name, content)
			l.absent(l.path(name, partSuffix))
			if n := l.asked("GET " + wire.PathBlocks); n != 1 {
				t.Errorf("%d bytes were there: %d downloads", have, n)
			}
		})
	}
}

// TestBlockThatIsNotTheSignedOneNeverAppears: whatever the server sends, nothing becomes
// visible under the name but the bytes of that hash, and the right ones are taken later.
func TestBlockThatIsNotTheSignedOneNeverAppears(t *testing.T) {
	content := noise(2*wire.PieceSize + 100)
	flipped := bytes.Clone(content)
	flipped[wire.PieceSize+7] ^= 1
	for name, c := range map[string]struct {
		code string
		send func(w http.ResponseWriter)
	}{
		"one bit differs": {CodeSignature, func(w http.ResponseWriter) { _, _ = w.Write(flipped) }},
		"too long": {CodeSignature, func(w http.ResponseWriter) {
			_, _ = w.Write(content)
			_ = http.NewResponseController(w).Flush() // so that no length is announced
			_, _ = w.Write([]byte("more"))
		}},
		"too short": {CodeUnreachable, func(w http.ResponseWriter) {
			_, _ = w.Write(content[:wire.PieceSize])
			_ = http.NewResponseController(w).Flush()
		}},
		"a portal's page":   {CodeAnswer, func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }},
		"no content":        {CodeAnswer, func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }},
		"an unasked part":   {CodeAnswer, func(w http.ResponseWriter) { w.WriteHeader(http.StatusPartialContent); _, _ = w.Write(content) }},
		"it has gone there": {CodeRefused, func(w http.ResponseWriter) { refuse(w, 404, &wire.Error{Kind: wire.KindNotFound, Text: "gone"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *link) {
				hash := l.publish(content)
				l.spoil = only(wire.PathBlocks, func(w http.ResponseWriter, _ *http.Request) { c.send(w) })
				l.start()
				pass(20 * time.Second)
				l.absent(l.path(hash, blockSuffix))
				l.inForce(0)
				if f := l.fault(LaneFiles); f.Code != c.code || !strings.Contains(f.Text, hash[:8]) || len(l.blocks) > 0 {
					t.Errorf("%d told, fault %+v", len(l.blocks), f)
				}
				l.update(func() { l.spoil = nil })
				pass(2 * time.Minute)
				l.visible(hash, content)
				l.inForce(1)
			})
		})
	}
}

func TestBlockThatFailsHoldsNoOtherUp(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		bad := l.publish(noise(1000))
		content := noise(2000)
		good := l.publish(content)
		l.update(func() { delete(l.fake.blocks, bad) })
		l.start()
		pass(time.Minute)
		l.visible(good, content)
		l.inForce(0) // not all that it lists is here
		if f := l.fault(LaneFiles); !strings.Contains(f.Text, bad[:8]) {
			t.Errorf("%+v", f)
		}
	})
}

func TestStalledDownloadIsGivenUpAndGoneOnWith(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(2*wire.PieceSize + 100)
		name := l.publish(content)
		first := true
		l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if !strings.HasPrefix(r.URL.Path, wire.PathBlocks) || !first {
				return false
			}
			first = false
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:wire.PieceSize+10])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // and then nothing
			return true
		}
		l.start()
		pass(stallTimeout - time.Second)
		l.absent(l.path(name, blockSuffix))
		pass(5 * time.Second)
		l.visible(name, content)
	})
}

func TestSnapshotThatMayNotBeBelievedChangesNothing(t *testing.T) {
	content := noise(1000)
	sum := sha256.Sum256(content)
	block := wire.Block{SHA256: hex.EncodeToString(sum[:]), Size: 1000, GameCode: "00399", Reader: 1, LastPack: 9, Published: policy.Date{Year: 2026, Month: 11, Day: 30}}
	with := func(edit func(*wire.Block)) wire.Snapshot {
		b := block
		edit(&b)
		return wire.Snapshot{Version: 9, Issued: time.Now(), Blocks: []wire.Block{b}}
	}
	for name, c := range map[string]struct {
		signed func(l *link) []byte
		code   string
	}{
		"signed by another": {func(*link) []byte {
			other := &fake{signer: strangeSigner()}
			return other.note(with(func(*wire.Block) {}).Text())
		}, CodeSignature},
		"older than the one in force": {func(l *link) []byte {
			return l.note(wire.Snapshot{Version: 2, Issued: l.now(), Blocks: []wire.Block{block}}.Text())
		}, CodeSignature},
		"another signed text": {func(l *link) []byte { return l.note(l.ack().Text()) }, CodeSignature},
		"a path for a name": {func(l *link) []byte {
			return l.note(with(func(b *wire.Block) { b.SHA256 = "../../etc/cron.d/x" }).Text())
		}, CodeSignature},
		"capitals in a name": {func(l *link) []byte {
			return l.note(with(func(b *wire.Block) { b.SHA256 = strings.ToUpper(b.SHA256) }).Text())
		}, CodeSignature},
		"a block without end":   {func(l *link) []byte { return l.note(with(func(b *wire.Block) { b.Size = wire.MaxBlock + 1 }).Text()) }, CodeSignature},
		"a portal's page":       {func(*link) []byte { return []byte("<html>Welcome") }, CodeSignature},
		"more than is readable": {func(*link) []byte { return make([]byte, wire.MaxAnswer+1) }, CodeAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *link) {
				if err := l.ledger.SetSnapshot(t.Context(), 3, time.Now()); err != nil {
					t.Fatal(err)
				}
				l.fake.blocks[block.SHA256] = content
				l.spoil = only(wire.PathSnapshot, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(c.signed(l)) })
				l.start()
				pass(time.Minute)
				l.inForce(3)
				if f := l.fault(LaneFiles); f.Code != c.code || l.asked("GET "+wire.PathBlocks) > 0 {
					t.Errorf("%d downloads, fault %+v", l.asked("GET "+wire.PathBlocks), f)
				}
			})
		})
	}
}

func TestBlockForANewerProgramIsLeftForIt(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		name := l.publish(noise(1000))
		l.update(func() { l.snapshot.Blocks[0].Reader = 1000 })
		l.start()
		pass(time.Minute)
		l.absent(l.path(name, blockSuffix))
		l.inForce(1)
	})
}

func TestDownloadLeavesTheReserveFree(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Reserve = 1 << 60
		name := l.publish(noise(1000))
		l.start()
		pass(time.Minute)
		l.absent(l.path(name, blockSuffix))
		if f := l.fault(LaneFiles); f.Code != CodeStore || !strings.Contains(f.Text, "free some space") || l.asked("GET "+wire.PathBlocks) > 0 {
			t.Errorf("%+v", f)
		}
	})
}

func TestWhatIsLeftOfAnUnwantedDownloadIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"old.part", "stick.manifest"} {
			if err := os.WriteFile(filepath.Join(l.opt.Blocks.Dir, name), []byte("x"), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		l.publish(noise(1000))
		l.start()
		pass(time.Second)
		l.absent(filepath.Join(l.opt.Blocks.Dir, "old.part"))
		if _, err := os.Stat(filepath.Join(l.opt.Blocks.Dir, "stick.manifest")); err != nil {
			t.Error(err)
		}
	})
}
