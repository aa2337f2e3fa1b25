package uplink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// paper is a ledger in memory: what the lanes need of one, and nothing of what makes one
// trustworthy. It stands for hundreds of terminals where files would not.
type paper struct {
	Ledger // what no lane here asks
	name   string

	mu       sync.Mutex
	lines    []string
	changed  chan struct{}
	acked    wire.Position
	notes    []wire.Ack
	items    []wire.FeedItem
	cursor   int64
	snapshot int64
	refused  string
	moved    func() // called when an acknowledgement, an item or a snapshot was stored
}

func newPaper(name string, moved func()) *paper {
	return &paper{name: name, changed: make(chan struct{}), acked: wire.Position{Epoch: 1, Hash: ledger.Hash{}.String()}, moved: moved}
}

func (p *paper) record(t testing.TB, n int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		at := p.at(int64(len(p.lines)))
		e := ledger.Entry{Version: 1, Terminal: p.name, Epoch: 1, Seq: at.Seq + 1, Boot: "b", Time: "2026-11-30T11:59:00.000Z", Kind: "test", Body: []byte("{}"), Prev: at.Hash}
		p.lines = append(p.lines, string(must(json.Marshal(e))))
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *paper) at(seq int64) wire.Position {
	if seq == 0 {
		return wire.Position{Epoch: 1, Hash: strings.Repeat("0", 64)}
	}
	sum := sha256.Sum256([]byte(p.lines[seq-1]))
	return wire.Position{Epoch: 1, Seq: seq, Hash: hex.EncodeToString(sum[:])}
}

func (p *paper) locked(do func()) {
	p.mu.Lock()
	do()
	p.mu.Unlock()
	p.moved()
}

func (p *paper) Terminal() string { return p.name }

func (p *paper) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *paper) HeadPosition(context.Context) (wire.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at(int64(len(p.lines))), nil
}

func (p *paper) PositionAt(_ context.Context, seq int64) (wire.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at(seq), nil
}

func (p *paper) Acked(context.Context) (wire.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, nil
}

func (p *paper) Since(_ context.Context, after int64, max int) (int64, []string, wire.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := min(int(after)+max, len(p.lines))
	return after + 1, slices.Clone(p.lines[after:end]), p.at(int64(end)), nil
}

func (p *paper) Ack(_ context.Context, a wire.Ack) (err error) {
	p.locked(func() {
		switch {
		case a.Position.Seq > int64(len(p.lines)):
			err = ledger.ErrAckAhead
		case a.Position.Hash != p.at(a.Position.Seq).Hash:
			err = ledger.ErrAckFork
		case a.Position.Seq > p.acked.Seq:
			p.acked, p.notes = a.Position, append(p.notes, a)
		}
	})
	return err
}

func (p *paper) AckedNote(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) == 0 {
		return "", nil
	}
	return p.notes[len(p.notes)-1].Note, nil
}

func (p *paper) Wanted(context.Context) (wanted, known bool, err error) { return false, false, nil }

func (p *paper) SignHead(context.Context, ledger.HeadReason) error { return nil }

func (p *paper) FeedCursor(context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursor, nil
}

func (p *paper) ApplyFeed(_ context.Context, items []wire.FeedItem, next int64) error {
	p.locked(func() { p.items, p.cursor = append(p.items, items...), next })
	return nil
}

func (p *paper) OpenClaims(context.Context) ([]wire.ClaimRequest, error) { return nil, nil }
func (p *paper) IntentsChanged() <-chan struct{}                         { return nil }
func (p *paper) OwnPacks(context.Context) ([]wire.PackItem, error)       { return nil, nil }
func (p *paper) SignedTime(context.Context) (time.Time, error)           { return time.Time{}, nil }

func (p *paper) Standing(context.Context, wire.Position, int64) (wire.Standing, error) {
	return wire.Standing{}, nil
}

func (p *paper) HoldsWaiting(context.Context, int) ([]wire.HoldAck, wire.Position, error) {
	return nil, wire.Position{}, nil
}

func (p *paper) Snapshot(context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot, nil
}

func (p *paper) SetSnapshot(_ context.Context, version int64, _ time.Time) error {
	p.locked(func() { p.snapshot = version })
	return nil
}

func (p *paper) Refused(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused, nil
}

func (p *paper) SetRefused(_ context.Context, code string) error {
	p.locked(func() { p.refused = code })
	return nil
}
