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
	"grattoir/validate"
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// shown tells which of the blocks are visible, in their order.
func (l *link) shown(names ...string) string {
	var out strings.Builder
	for i, name := range names {
		if _, err := os.Stat(l.path(name, blockSuffix)); err == nil {
			fmt.Fprint(&out, i)
		}
	}
	return out.String()
}

// own puts packs of this terminal into the feed.
func (l *link) own(seq int64, first, last uint32) {
	l.update(func() {
		l.feed = append(l.feed, wire.FeedItem{Seq: seq, Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: first, Last: last, State: validate.PackDelivered, Owner: "T-1", Epoch: 1}})
	})
}

func (l *link) lacks(t *testing.T, want ...Missing) {
	t.Helper()
	got := l.uplink.Status().Missing
	if len(got) != len(want) {
		t.Errorf("missing %+v", got)
		return
	}
	for i, m := range got {
		if m.FirstPack != want[i].FirstPack || m.Own != want[i].Own || m.Why != want[i].Why || m.GameCode != "00399" || m.Size == 0 {
			t.Errorf("missing %+v, want %+v", m, want[i])
		}
	}
}

// TestQuotaHoldsTheBlocksThatAreWantedMost: a pack that is delivered here brings its
// block, and the least wanted makes way for it, not before.
func TestQuotaHoldsTheBlocksThatAreWantedMost(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Quota = 6500
		var names []string
		for i := range 4 { // packs 1-100, 101-200, ..., the last published last
			names = append(names, l.publish(noise(2000+i)))
		}
		l.start()
		pass(time.Minute)
		if got := l.shown(names...); got != "123" {
			t.Fatalf("%s are here", got)
		}
		l.inForce(4) // all that was chosen
		l.lacks(t, Missing{FirstPack: 1, Why: WhyQuota})
		asked := l.asked("GET " + wire.PathSnapshot)

		l.own(1, 7, 8)
		pass(time.Minute)
		if got := l.shown(names...); got != "023" {
			t.Fatalf("with a pack of the first: %s are here", got)
		}
		l.lacks(t, Missing{FirstPack: 101, Why: WhyQuota})
		if s := l.uplink.Status(); len(s.Faults) != 0 || s.Quota != 6500 || s.Taken != 2000+2002+2003 || l.asked("GET "+wire.PathSnapshot) != asked {
			t.Errorf("%+v, the snapshot was asked for %d times more", s, l.asked("GET "+wire.PathSnapshot)-asked)
		}

		// A download that fails has cost no more than the room it needs, and the next is tried.
		l.own(2, 101, 101)
		l.update(func() {
			l.spoil = only(wire.PathBlocks, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, &wire.Error{Kind: wire.KindBusy}) })
		})
		pass(time.Minute)
		if got := l.shown(names...); got != "03" {
			t.Errorf("while the second cannot be fetched: %s are here", got)
		}
		l.update(func() { l.spoil = nil })
		pass(2 * time.Minute)
		if got := l.shown(names...); got != "013" {
			t.Errorf("with packs of the first two: %s are here", got)
		}
	})
}

// TestDownloadsThatFailCostNoMoreThanTheRoomOfOne: a block goes when its room is needed
// for the very next download, and not for those that may follow.
func TestDownloadsThatFailCostNoMoreThanTheRoomOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Quota = 4500
		names := []string{l.publish(noise(2000)), l.publish(noise(2001))}
		l.start()
		pass(time.Minute)
		l.spoil = only(wire.PathBlocks, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, &wire.Error{Kind: wire.KindBusy}) })
		names = append(names, l.publish(noise(2002)), l.publish(noise(2003)))
		pass(5 * time.Minute)
		if got := l.shown(names...); got != "1" {
			t.Errorf("%s are here", got)
		}
		l.lacks(t, Missing{FirstPack: 301, Why: WhyComing}, Missing{FirstPack: 201, Why: WhyComing}, Missing{FirstPack: 1, Why: WhyQuota})
	})
}

// TestRegionComesWithHelloAndHoldsWithNoNetwork: after a restart the terminal knows where
// it stands and what is missing before central answers.
func TestRegionComesWithHelloAndHoldsWithNoNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Quota = 2500
		there, elsewhere := l.publish(noise(2000)), l.publish(noise(2001))
		l.update(func() { l.snapshot.Blocks[0].Regions = []string{"bzh", "idf"} })
		l.start()
		pass(2 * time.Minute)
		if got := l.shown(there, elsewhere); got != "1" {
			t.Fatalf("of no region: %s", got)
		}
		l.update(func() { l.region = "bzh" })
		pass(2 * time.Minute)
		if got := l.shown(there, elsewhere); got != "0" {
			t.Fatalf("in bzh: %s, region %q", got, l.uplink.Region())
		}
		l.stop()
		l.net.cut(true)
		l.start()
		if r := l.uplink.Region(); r != "bzh" || len(l.uplink.Listed()) != 2 {
			t.Errorf("region %q, %d blocks listed", r, len(l.uplink.Listed()))
		}
		pass(time.Minute)
		l.lacks(t, Missing{FirstPack: 101, Why: WhyQuota})
		if got := l.shown(there, elsewhere); got != "0" {
			t.Errorf("with no network: %s", got)
		}
	})
}

func TestRegionThatIsNoneChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.region = "../bzh"
		l.start()
		pass(time.Minute)
		if f := l.fault(LaneHello); f.Code != CodeAnswer || l.uplink.Region() != "" {
			t.Errorf("region %q, %+v", l.uplink.Region(), f)
		}
	})
}

// TestBlockIsDroppedAfterItsDayByTrustedTimeOnly: the device's clock, three months ahead,
// drops nothing; central's signed time does.
func TestBlockIsDroppedAfterItsDayByTrustedTimeOnly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, l *link) {
		today := policy.DateOf(time.Now().UTC())
		l.opt.Now = func() time.Time { return time.Now().AddDate(0, 3, 0) }
		closed, open := l.publish(noise(2000)), l.publish(noise(2001))
		l.update(func() { l.snapshot.Blocks[0].DropAfter = today })
		l.own(1, 1, 100)
		l.start()
		pass(time.Minute)
		if got := l.shown(closed, open); got != "01" {
			t.Fatalf("on the last day: %s", got)
		}
		pass(25 * time.Hour) // since central's last signed time: the monotonic clock counts
		if got := l.shown(closed, open); got != "1" {
			t.Errorf("the day after: %s", got)
		}
		l.lacks(t)
		if n := l.asked("GET " + wire.PathBlocks); n != 2 {
			t.Errorf("%d downloads", n)
		}
	})
}

func TestFileBroughtByHandIsCountedAndNeverTouched(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Quota = 4500
		if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
			t.Fatal(err)
		}
		mine := filepath.Join(l.opt.Blocks.Dir, "stick.manifest")
		aside := filepath.Join(l.opt.Blocks.Dir, "stick.manifest.damaged")
		for _, path := range []string{mine, aside} {
			if err := os.WriteFile(path, noise(1000), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		older, later := l.publish(noise(2000)), l.publish(noise(2001))
		l.start()
		pass(time.Minute)
		if got := l.shown(older, later); got != "1" || l.uplink.Status().Taken != 3001 {
			t.Errorf("%s are here, %d bytes", got, l.uplink.Status().Taken)
		}
		l.opt.Blocks.Quota = 500
		l.stop()
		l.start()
		pass(time.Minute)
		if got := l.shown(older, later); got != "" {
			t.Errorf("under a lower quota: %s", got)
		}
		for _, path := range []string{mine, aside} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEarlierIssueGoesWhenTheNewOneAnswers: there is no moment without a block to ask,
// and a new issue that cannot be opened takes nothing's place.
func TestEarlierIssueGoesWhenTheNewOneAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Blocks.Quota = 2500
		var sound atomic.Bool
		l.opt.Held = func(string) (Held, bool) {
			return Held{GameCode: "00399", FirstPack: 1, LastPack: 100, Sound: sound.Load()}, true
		}
		first := l.publish(noise(2000))
		l.start()
		pass(time.Minute)
		second := l.publish(noise(2001))
		l.update(func() {
			l.snapshot.Blocks = l.snapshot.Blocks[1:]
			l.snapshot.Blocks[0].FirstPack, l.snapshot.Blocks[0].LastPack = 1, 100
		})
		pass(2 * time.Minute)
		if got := l.shown(first, second); got != "1" && got != "01" || l.asked("GET "+wire.PathBlocks) != 2 {
			t.Fatalf("%s are here", got)
		}
		third := l.publish(noise(2002))
		l.update(func() {
			l.snapshot.Blocks = l.snapshot.Blocks[1:]
			l.snapshot.Blocks[0].FirstPack, l.snapshot.Blocks[0].LastPack = 1, 100
		})
		sound.Store(true)
		pass(2 * time.Minute)
		if got := l.shown(first, second, third); got != "2" {
			t.Errorf("%s are here", got)
		}
		l.inForce(3)
	})
}

func TestSnapshotThatListsABlockTwiceIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.publish(noise(1000))
		l.update(func() { l.snapshot.Blocks = append(l.snapshot.Blocks, l.snapshot.Blocks[0]) })
		l.start()
		pass(time.Minute)
		if f := l.fault(LaneFiles); f.Code != CodeSignature || !strings.Contains(f.Text, "twice") {
			t.Errorf("%+v", f)
		}
	})
}

func TestDamagedFileSetAsideGoesWhenItsBlockIsWhole(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		name := l.publish(noise(1000))
		if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
			t.Fatal(err)
		}
		aside := l.path(name, blockSuffix+damagedSuffix)
		if err := os.WriteFile(aside, noise(1000), 0o640); err != nil {
			t.Fatal(err)
		}
		l.spoil = only(wire.PathBlocks, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, &wire.Error{Kind: wire.KindBusy}) })
		l.start()
		pass(10 * time.Second)
		if _, err := os.Stat(aside); err != nil {
			t.Errorf("gone before the block came: %v", err)
		}
		l.update(func() { l.spoil = nil })
		pass(2 * time.Minute)
		l.visible(name, noise(1000))
		l.absent(aside)
	})
}
