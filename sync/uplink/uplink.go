// Package uplink is the terminal's side of the link to central: it enrols, sends the
// journal, hears the status feed, fetches blocks, and tells how the terminal is. Each is
// a lane of its own that fails and retries by itself; none is ever in the way of a
// payment. What central says is believed only with its signature or over its
// certificate, and is durable in the ledger before anybody acts on it. It decides
// nothing and imports no device. Start at Run; sync/wire/PROTOCOL.md is the contract.
package uplink

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// Ledger is what the uplink needs of the record of money. *ledger.Ledger is one, and its
// documentation is the contract.
type Ledger interface {
	Terminal() string
	// Changed is closed when the next entry is in the journal.
	Changed() <-chan struct{}
	HeadPosition(ctx context.Context) (wire.Position, error)
	PositionAt(ctx context.Context, seq int64) (wire.Position, error)
	Acked(ctx context.Context) (wire.Position, error)
	// AckedNote is the newest acknowledgement as central signed it, "" for none.
	AckedNote(ctx context.Context) (string, error)
	// Since gives the next run of exact lines after an entry. Reading deletes nothing.
	Since(ctx context.Context, after int64, max int) (from int64, lines []string, to wire.Position, err error)
	Ack(ctx context.Context, a wire.Ack) error
	// SignHead has the device sign the newest entry, unless it has done so.
	SignHead(ctx context.Context, why ledger.HeadReason) error
	FeedCursor(ctx context.Context) (int64, error)
	ApplyFeed(ctx context.Context, items []wire.FeedItem, next int64) error
	// OpenClaims are what central must be asked, ClaimAnswered stores what it said, and
	// IntentsChanged is closed when there may be more to ask.
	OpenClaims(ctx context.Context) ([]wire.ClaimRequest, error)
	ClaimAnswered(ctx context.Context, a wire.ClaimAnswer) error
	IntentsChanged() <-chan struct{}
	// HoldsWaiting are holds of the feed that central does not know to be kept.
	HoldsWaiting(ctx context.Context, max int) ([]wire.HoldAck, wire.Position, error)
	HoldsStored(ctx context.Context, feed []int64) error
	// Standing is what this terminal may pay, as central must know it after it was put back.
	Standing(ctx context.Context, held wire.Position, feed int64) (wire.Standing, error)
	// Wanted tells whether released packs are wanted again, and whether central knows of
	// their release.
	Wanted(ctx context.Context) (wanted, known bool, err error)
	// OwnPacks are the runs of packs that this terminal owns, whatever their state.
	OwnPacks(ctx context.Context) ([]wire.PackItem, error)
	Snapshot(ctx context.Context) (int64, error)
	SetSnapshot(ctx context.Context, version int64, issued time.Time) error
	// Refused is the durable code of what stops this terminal; SetRefused stores it.
	Refused(ctx context.Context) (code string, err error)
	SetRefused(ctx context.Context, code string) error
	// Restore brings the journal back to what central holds, in a new epoch, and clears
	// what is refused.
	Restore(ctx context.Context, r ledger.Restoring) (ledger.Restored, error)
	// SignedTime is the newest stored time that central signed, zero for none.
	SignedTime(ctx context.Context) (time.Time, error)
}

// Options make an uplink.
type Options struct {
	URL      string // central's, https; "" for the one of the enrolment
	Identity Identity
	Ledger   Ledger
	Blocks   BlockStore
	// Looks are what is asked at the counter; nil tells central nothing of it.
	Looks Looks
	// Dial connects to central, nil for the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now is the device's clock, nil for time.Now. Its times carry a monotonic reading,
	// which is what counts how long ago something was.
	Now func() time.Time
	// Rand spreads retries: a number in [0, 1). Nil for a random one.
	Rand func() float64
	// RetryCap is the longest pause that failures alone lead to, 0 for a minute.
	RetryCap time.Duration
	Log      *slog.Logger // nil for none
	Program  string       // name and version, for central's reports
	// Faults gives the codes of what does not work on the terminal now, nil for none.
	Faults func() []string
	// Peppers lists the blocks here that lack their pepper, and KeepPepper stores one that
	// came, still sealed to this terminal. Nil for a terminal that takes none.
	Peppers    func() []validate.BlockID
	KeepPepper func(wire.SealedPepper) error
	// Register is the terminal's register of identities, nil for a terminal that keeps none.
	Register Register
	// OnBlocks is called when a block file has become visible or was dropped, nil for
	// nobody. The snapshot comes into force after it has returned.
	OnBlocks func()
	// PolicyDir is the folder of signed policies, "" for a terminal that takes none from
	// central. OnPolicies is called when it holds another whole set, nil for nobody.
	PolicyDir  string
	OnPolicies func()
	// OnCatalogue is called when another catalogue of games is here, see Catalogue; nil for nobody.
	OnCatalogue func()
	// Software tells what runs here and how far an update has come; nil for a terminal whose
	// software is not central's. UpdateDir is where an offered update is put, its manifest last.
	Software  Software
	UpdateDir string
	// OnListed is called when Listed has changed, nil for nobody.
	OnListed func()
	// Step, when set, is called before and after each durable step of a claim or a hold,
	// with its name. Crash tests kill the program there.
	Step func(name string)
	// Held tells what the file of a block of that name is, false for one that is not open.
	// Nil knows none: an earlier issue of a block then stays until its room is needed.
	Held func(sha256 string) (Held, bool)
}

// Lane is one of the things that an uplink does by itself.
type Lane string

const (
	LaneClaims  Lane = "claims"  // may this ticket be paid? to central
	LaneHolds   Lane = "holds"   // tickets that are not paid here by ourselves, to central
	LaneTake    Lane = "take"    // packs that were released, back from central
	LaneJournal Lane = "journal" // entries to central
	LaneFeed    Lane = "feed"    // packs and payments elsewhere from central
	LaneFiles   Lane = "files"   // snapshot and blocks from central
	LanePeppers Lane = "peppers" // peppers of blocks with short secrets from central
	LaneHello   Lane = "hello"   // how the terminal is, to central

	LaneIdentities Lane = "identities"  // sealed identities of winners to central
	LaneRenew      Lane = "certificate" // the certificate's renewal
	LaneEnrol      Lane = "enrol"       // the certificate of a terminal that was enrolled by a file
)

// Fault is what keeps a lane from its work, in words.
type Fault struct {
	Code  string // for the phone, see the Code constants
	Lane  Lane
	Text  string
	At    time.Time // device time of its first failure since it last worked
	Tries int
}

// Codes of faults.
const (
	CodeUnreachable = "C1" // no network, or central is down
	CodeNotCentral  = "C2" // the other end is not central: address, portal, clock
	CodeAnswer      = "C3" // something between answers in central's place
	CodeForbidden   = "C4" // central refuses this terminal
	CodeBusy        = "C5" // central asks to come later, or has a fault of its own
	CodeStopped     = "C6" // the two journals contradict each other: a person is needed
	CodeStore       = "C7" // the ledger or the folder of blocks cannot store
	CodeSignature   = "C8" // not signed by central's key, or older than what is in force
	CodeRefused     = "C9" // central refuses the request itself: update the program

	CodeBehind   = "C10" // central holds more of the journal than the ledger: the card was put back
	CodeTwoHeads = "C11" // another device has this terminal's name: a card was copied
)

// Status is how the link is.
type Status struct {
	Contact     time.Time // device time of central's last good answer, zero for never since the start
	Faults      []Fault   // at most one for each lane, in the lanes' order; none when all work
	Acked       wire.Position
	Unsent      int64     // entries above the acknowledged one
	Refused     string    // CodeForbidden, or a code that Stops names, while nothing may be paid, durable; "" otherwise
	Snapshot    int64     // version in force
	Region      string    // where the terminal stands, "" for nowhere in particular
	Quota       int64     // bytes that manifests may take
	Taken       int64     // bytes that they take
	Missing     []Missing // blocks that central lists and the folder lacks, the most wanted first
	Feed        int64     // cursor reached
	Exceptions  int64     // entries that central stored and did not credit, since the start
	Offset      time.Duration
	OffsetKnown bool      // whether Offset, central's clock minus the device's, was measured
	Expires     time.Time // end of the terminal's certificate
}

// Suspended tells whether central refused this terminal or contradicted its journal,
// however long ago, and has not taken it back since. Nothing may be paid then, and a
// person is needed.
func (s Status) Suspended() bool { return s.Refused != "" }

// ErrStopped means that central's copy of the journal contradicts the ledger: the same
// number with other bytes, or more entries than there are. Nothing is sent until a
// person has looked.
var ErrStopped = errors.New("the journal is stopped: central's copy contradicts it, call central operations")

const (
	refusedHold = 10 * time.Minute // before a request that central will never take is tried again
	helloEvery  = time.Minute
)

// Uplink is the link of one terminal. It is safe for concurrent use.
type Uplink struct {
	opt      Options
	base     *url.URL
	identity atomic.Pointer[Identity] // the present one
	link     atomic.Pointer[client]   // with its certificate
	floor    time.Time                // newest signed time known before the start

	fresh  chan struct{} // there is a newer snapshot
	replan chan struct{} // packs or the region have changed: other blocks may be wanted
	packs  chan struct{} // packs or blocks have come, maybe with a pepper to ask for
	held   chan struct{} // a hold has come
	nudge  chan struct{} // moved or agreed was set

	// met is closed once central has said what it holds of the journal. A ledger that never
	// spoke with central may be one that was made anew: it does not know what was paid, so
	// the feed must not yet tell it what it may pay.
	met     chan struct{}
	metOnce sync.Once

	named  string        // the mark of whom central tells terminals to believe; mu guards it
	ended  atomic.Bool   // central says that the certificate has ended
	lapsed chan struct{} // ended was set
	spread float64       // of renewals among terminals, 0 to 1

	run   string // random name of this program since its start
	count int64  // hellos said; of that lane alone
	bench string // hash of the bench record that central has heard; of that lane alone

	mu         sync.Mutex // guards what follows
	faults     map[Lane]Fault
	contact    time.Time
	offset     *time.Duration
	signed     time.Time // newest signed time heard since the start
	signedAt   time.Time // when, by the device's clock with its monotonic reading
	exceptions int64
	refused    string            // code of what stops this terminal, as the ledger keeps it
	agreed     int64             // journal epoch that a person has agreed to, 0 for none
	moved      *wire.Position    // what central holds, when that is not what it signed for
	listed     *wire.Snapshot    // the newest accepted, in force or on its way; never changed
	told       int64             // newest version of it that central has named
	texts      int               // newest text of it that central gives
	offer      *wire.Offer       // central's newest, nil for none
	offered    bool              // central has said since the start what it offers
	coming     *wire.UpdateState // that is on its way here, nil for none
	region     string
	missing    []Missing
	folder     int64 // bytes of manifests in the folder
}

// New makes an uplink. Run starts it.
func New(o Options) (*Uplink, error) {
	if o.Identity.key == nil {
		return nil, ErrNoIdentity
	}
	if name := o.Ledger.Terminal(); name != o.Identity.Terminal {
		return nil, fmt.Errorf("%w: it is of terminal %q, the ledger of %q", ErrIdentity, o.Identity.Terminal, name)
	}
	if o.URL == "" {
		o.URL = o.Identity.Central
	}
	base, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Blocks.Dir == "" || o.Blocks.Quota < 1 {
		return nil, fmt.Errorf("uplink: blocks need a folder and a quota, not %q and %d bytes", o.Blocks.Dir, o.Blocks.Quota)
	}
	o.fill()
	u := &Uplink{opt: o, base: base, fresh: make(chan struct{}, 1), replan: make(chan struct{}, 1), packs: make(chan struct{}, 1), nudge: make(chan struct{}, 1), held: make(chan struct{}, 1), lapsed: make(chan struct{}, 1), spread: o.Rand(), met: make(chan struct{}), faults: map[Lane]Fault{}}
	u.identity.Store(&o.Identity)
	if u.floor, err = o.Ledger.SignedTime(context.Background()); err != nil {
		return nil, err
	}
	if u.refused, err = o.Ledger.Refused(context.Background()); err != nil {
		return nil, err
	}
	if !u.floor.IsZero() { // it has spoken with central before
		u.meet()
	}
	if u.run, err = randomName(); err != nil {
		return nil, err
	}
	if issued := o.Identity.Issued(); issued.After(u.floor) {
		u.floor = issued
	}
	if err := u.recall(context.Background()); err != nil {
		return nil, err
	}
	u.link.Store(newClient(base, o.Dial, o.Identity.tlsConfig(u.tlsTime)))
	return u, nil
}

func randomName() (string, error) {
	raw := make([]byte, 16)
	if _, err := crand.Read(raw); err != nil {
		return "", fmt.Errorf("random number: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// meet lets the feed begin: central has said what it holds of the journal.
func (u *Uplink) meet() { u.metOnce.Do(func() { close(u.met) }) }

// me is who the terminal is now: a certificate is renewed while the lanes work.
func (u *Uplink) me() Identity { return *u.identity.Load() }

// client is the way to central with the present certificate.
func (u *Uplink) client() *client { return u.link.Load() }

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.RetryCap <= 0 {
		o.RetryCap = RetryCap
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Faults == nil {
		o.Faults = func() []string { return nil }
	}
	if o.Peppers == nil {
		o.Peppers = func() []validate.BlockID { return nil }
	}
	if o.OnBlocks == nil {
		o.OnBlocks = func() {}
	}
	if o.OnPolicies == nil {
		o.OnPolicies = func() {}
	}
	if o.OnCatalogue == nil {
		o.OnCatalogue = func() {}
	}
	if o.OnListed == nil {
		o.OnListed = func() {}
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	if o.Held == nil {
		o.Held = func(string) (Held, bool) { return Held{}, false }
	}
}

// Run works until ctx ends, and returns nil then. Whatever it was doing is left so that
// the next Run goes on with it.
func (u *Uplink) Run(ctx context.Context) error {
	defer func() { u.client().end() }()
	u.work(ctx, LaneEnrol, u.enrolWaiting)
	if ctx.Err() != nil {
		return nil
	}
	var lanes sync.WaitGroup
	j, f := journal{Uplink: u, at: -1, max: firstRun}, files{Uplink: u}
	all := map[Lane]step{LaneClaims: u.askClaims, LaneHolds: u.sendHolds, LaneTake: u.takePacks, LaneJournal: j.step, LaneFeed: u.hear, LaneFiles: f.step, LanePeppers: u.fetchPeppers, LaneHello: u.hello,
		LaneRenew: u.renew}
	if u.opt.Register != nil {
		all[LaneIdentities] = u.sendIdentities
	}
	for name, step := range all {
		lanes.Go(func() { u.work(ctx, name, step) })
	}
	lanes.Wait()
	return nil
}

// step does a lane's next piece of work and returns what it waits for then. After an
// error that is what ends the pause early.
type step func(ctx context.Context) (rest, error)

// rest ends when one of its channels is ready or its time has passed; zero time is no
// time of its own, and a nil channel never is ready. Now skips it.
type rest struct {
	now   bool
	after time.Duration
	wake  [2]<-chan struct{}
}

// work runs one lane.
func (u *Uplink) work(ctx context.Context, name Lane, next step) {
	var back Backoff
	for ctx.Err() == nil {
		r, err := next(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errDone) {
			u.well(name)
			return
		}
		if err == nil {
			back.Reset()
			u.well(name)
			if !r.now {
				u.wait(ctx, r)
			}
			continue
		}
		var p *progress
		if errors.As(err, &p) {
			back.Reset() // a bad line that carries something is tried again soon
		}
		if errors.Is(err, context.DeadlineExceeded) {
			// The next try would take a connection that went silent with this one. The client may
			// be another by now, where the identity was renewed while a poll was held.
			u.client().close()
		}
		u.fail(name, err)
		u.heedEnd(name, err)
		if errors.Is(err, ErrStopped) { // until a hello says that a person has agreed, or central holds something else
			u.wait(ctx, rest{wake: [2]<-chan struct{}{u.nudge}})
			continue
		}
		pause := rest{after: u.pause(err, &back), wake: r.wake}
		if slotOf(err) > 0 {
			pause.wake = [2]<-chan struct{}{} // central has said when, and others have their slots
		}
		u.wait(ctx, pause)
	}
}

func (u *Uplink) wait(ctx context.Context, r rest) {
	var alarm <-chan time.Time
	if r.after > 0 {
		t := time.NewTimer(r.after)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
	case <-alarm:
	case <-r.wake[0]:
	case <-r.wake[1]:
	}
}

// pause is how long a lane waits after a failure.
func (u *Uplink) pause(err error, back *Backoff) time.Duration {
	d := back.Next(slotOf(err), u.opt.RetryCap, u.opt.Rand())
	var e *wire.Error
	if errors.As(err, &e) && (e.Kind == wire.KindBadRequest || e.Kind == wire.KindUpgrade) {
		d = max(d, refusedHold)
	}
	return d
}

// errDone ends a lane that has nothing left to do.
var errDone = errors.New("done")

// slotOf is after how much time central said to come back, 0 for no word of it.
func slotOf(err error) time.Duration {
	var r *refused
	if errors.As(err, &r) {
		return r.after
	}
	return 0
}

// progress is a failure after something was gained.
type progress struct{ error }

func (p *progress) Unwrap() error { return p.error }

func (u *Uplink) well(name Lane) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f, was := u.faults[name]; was {
		u.opt.Log.Info("link works again", "lane", name, "code", f.Code, "tries", f.Tries)
		delete(u.faults, name)
	}
}

// fail stores a lane's fault. The log gets it once, not at every try.
func (u *Uplink) fail(name Lane, err error) {
	f := Fault{Code: faultCode(err), Lane: name, Text: clip(err.Error(), 400), At: u.opt.Now(), Tries: 1}
	u.mu.Lock()
	defer u.mu.Unlock()
	old, was := u.faults[name]
	if was {
		f.At, f.Tries = old.At, old.Tries+1
	}
	u.refuseLocked(f.Code)
	if !was || old.Code != f.Code {
		u.opt.Log.Warn("link", "lane", name, "code", f.Code, "err", err)
	}
	u.faults[name] = f
}

// setRefused stores what stops this terminal, or that nothing does. The lock is held.
func (u *Uplink) setRefused(code string) {
	u.refused = code // in force at once, also when it cannot be stored
	if err := u.opt.Ledger.SetRefused(context.Background(), code); err != nil {
		u.opt.Log.Error("link", "code", CodeStore, "err", err)
	}
}

// taken lifts central's refusal, when a hello was answered. Silence lifts nothing, and what
// contradicts central's journal is lifted by a restore alone.
func (u *Uplink) taken() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refused == CodeForbidden {
		u.setRefused("")
	}
}

func faultCode(err error) string {
	var e *wire.Error
	switch {
	case errors.Is(err, ErrHeadBehind):
		return CodeBehind
	case errors.Is(err, ErrTwoHeads):
		return CodeTwoHeads
	case errors.As(err, &e) && e.Kind == wire.KindFork:
		return stopCode(e.Stop)
	case errors.Is(err, ErrStopped):
		return CodeStopped
	case errors.Is(err, ErrSignature), errors.Is(err, ErrOldSnapshot), errors.Is(err, ErrPolicy), errors.Is(err, ErrBlock):
		return CodeSignature
	case errors.Is(err, ErrStore):
		return CodeStore
	case errors.Is(err, ErrAnswer):
		return CodeAnswer
	case errors.As(err, &e):
		return refusalCode(e.Kind)
	case errors.Is(err, ErrNotCentral), errors.Is(err, ErrNotPinned):
		return CodeNotCentral
	case errors.Is(err, ErrUnreachable):
		return CodeUnreachable
	}
	return CodeStore // what is left comes from the ledger
}

func refusalCode(k wire.Kind) string {
	switch k {
	case wire.KindForbidden, wire.KindBadCode:
		return CodeForbidden
	case wire.KindBusy, wire.KindInternal:
		return CodeBusy
	case wire.KindFork:
		return CodeStopped
	case wire.KindExpired:
		return CodeNotCentral
	}
	return CodeRefused
}

// heard notes that central answered.
func (u *Uplink) heard() {
	now := u.opt.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.contact = now
}

// heardSigned raises the trusted time. Old notes can be played again, so a time counts
// only when it is newer than what is known already.
func (u *Uplink) heardSigned(t time.Time) {
	now := u.opt.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if t.After(u.trusted(now)) {
		u.signed, u.signedAt = t, now
	}
}

// Trusted is the newest time that central has signed since the start, advanced by the
// monotonic clock since it came; zero before the first. The device's clock never raises it.
func (u *Uplink) Trusted() time.Time {
	now := u.opt.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.trusted(now)
}

func (u *Uplink) trusted(now time.Time) time.Time {
	if u.signed.IsZero() {
		return time.Time{}
	}
	return u.signed.Add(max(0, now.Sub(u.signedAt)))
}

// Floor is the newest signed time known at all, from before the start too: now is not
// earlier than this.
func (u *Uplink) Floor() time.Time {
	if t := u.Trusted(); t.After(u.floor) {
		return t
	}
	return u.floor
}

// tlsTime is when certificates are looked at, and whether it is a clock's: the device's
// own where it is not behind what central has signed, and not so far ahead of it that
// nothing but a broken clock explains it. A board without a battery boots in 1970, and its
// stored clock may be weeks back. What is not believed is the floor alone.
func (u *Uplink) tlsTime() (at time.Time, believed bool) {
	now, floor := u.opt.Now(), u.Floor()
	if now.Before(floor) || !floor.IsZero() && now.After(floor.AddDate(maxAhead, 0, 0)) {
		return floor, false
	}
	return now, true
}

// maxAhead is how many years a clock may be ahead of the newest signed time: more than
// central's certificate lives, so that one who was off for longer is not refused by it.
const maxAhead = 3

// Status tells how the link is now.
func (u *Uplink) Status() Status {
	ctx := context.Background()
	head, err1 := u.opt.Ledger.HeadPosition(ctx)
	acked, err2 := u.opt.Ledger.Acked(ctx)
	snapshot, err3 := u.opt.Ledger.Snapshot(ctx)
	feed, err4 := u.opt.Ledger.FeedCursor(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Status{Contact: u.contact, Acked: acked, Unsent: max(0, head.Seq-acked.Seq), Snapshot: snapshot, Feed: feed, Exceptions: u.exceptions, Refused: u.refused, Expires: u.me().Expires(),
		Region: u.region, Quota: u.opt.Blocks.Quota, Taken: u.folder, Missing: slices.Clone(u.missing)}
	if u.offset != nil {
		s.Offset, s.OffsetKnown = *u.offset, true
	}
	for _, f := range u.faults {
		s.Faults = append(s.Faults, f)
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil && u.faults[LaneJournal].Code == "" {
		s.Faults = append(s.Faults, Fault{Code: CodeStore, Lane: LaneJournal, Text: clip(err.Error(), 400), At: u.opt.Now(), Tries: 1})
	}
	order := []Lane{LaneEnrol, LaneClaims, LaneHolds, LaneTake, LaneJournal, LaneFeed, LaneFiles, LanePeppers, LaneIdentities, LaneRenew, LaneHello}
	slices.SortFunc(s.Faults, func(a, b Fault) int { return slices.Index(order, a.Lane) - slices.Index(order, b.Lane) })
	return s
}

// Refused is Status.Refused alone.
func (u *Uplink) Refused() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused
}

// Looks counts what is asked at the counter, and remembers what central may want to know.
type Looks interface {
	// Looks gives the counts of the last days and the sightings that central has not heard of,
	// within the bounds of a hello.
	Looks(ctx context.Context) ([]wire.Look, []wire.Sighting, error)
	// Sighted forgets the sightings up to a number: central holds them.
	Sighted(ctx context.Context, number int64) error
}

// asked fills in what a hello tells of looks. What cannot be read is told another time: it
// is no reason to say nothing.
func (u *Uplink) asked(ctx context.Context, h *wire.Hello) {
	if u.opt.Looks == nil {
		return
	}
	var err error
	if h.Looks, h.Sightings, err = u.opt.Looks.Looks(ctx); err == nil {
		err = h.CheckLooks()
	}
	if err != nil {
		u.opt.Log.Warn("what was asked at the counter is not told", "err", err)
		h.Looks, h.Sightings = nil, nil
	}
}

// hello tells central how the terminal is, and hears what central has of it.
func (u *Uplink) hello(ctx context.Context) (rest, error) {
	s := u.Status()
	head, err := u.opt.Ledger.HeadPosition(ctx)
	if err != nil {
		return rest{}, err
	}
	free, err := u.opt.Blocks.free()
	if err != nil {
		return rest{}, err
	}
	faults := append([]string{}, u.opt.Faults()...)
	for _, f := range s.Faults {
		if f.Lane != LaneHello {
			faults = append(faults, f.Code+"-"+string(f.Lane))
		}
	}
	signed, err := u.opt.Ledger.AckedNote(ctx)
	if err != nil {
		return rest{}, err
	}
	u.count++
	stop, _ := stops(s.Refused)
	asked := u.opt.Now()
	message := wire.Hello{Protocol: wire.Protocol, Program: u.opt.Program, Head: head, Snapshot: s.Snapshot, Feed: s.Feed, Unsent: s.Unsent,
		DeviceTime: wire.FormatTime(asked), DiskFree: free, Faults: faults,
		Stopped: stop, Acked: signed, Trust: u.me().file.Trust, Run: u.run, Count: u.count, Tells: true}
	u.asked(ctx, &message)
	told := u.benched(&message)
	message.Software = u.software()
	var a wire.HelloAnswer
	if err := u.client().post(ctx, wire.PathHello, message, &a); err != nil {
		return rest{}, err
	}
	u.heard()
	if told != "" && a.Bench == told {
		u.bench = told
	}
	u.measure(a.Time, asked, u.opt.Now())
	if u.opt.Looks != nil && a.Sighted > 0 {
		if err := u.opt.Looks.Sighted(ctx, a.Sighted); err != nil { // they are sent again
			u.opt.Log.Warn("sightings that central holds are not forgotten", "err", err)
		}
	}
	u.taken()
	if err := u.tell(ctx, a); err != nil { // before its journal, which is judged by these rights
		return rest{}, err
	}
	if err := u.helloAck(ctx, a); err != nil {
		return rest{}, err
	}
	if err := u.compare(ctx, s.Acked, a.Acked); err != nil {
		return rest{}, err
	}
	u.meet()
	u.hearTrust(a.Trust)
	if a.Recover > 0 {
		u.agree(a.Recover)
	}
	u.hearTexts(a.Texts)
	u.hearOffer(a.Update)
	u.hearSnapshot(a.Snapshot)
	if err := u.setRegion(a.Region); err != nil {
		return rest{}, err
	}
	return rest{after: time.Duration((0.9 + 0.2*u.opt.Rand()) * float64(helloEvery))}, nil
}

// measure compares the clocks, supposing that both ways took the same time. It is a
// figure for people; nothing is decided by it.
func (u *Uplink) measure(text string, asked, answered time.Time) {
	t, err := wire.ParseTime(text)
	if err != nil {
		return
	}
	off := t.Sub(asked.Add(answered.Sub(asked) / 2))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offset = &off
}

// helloAck stores the countersigned head that comes with some answers.
func (u *Uplink) helloAck(ctx context.Context, a wire.HelloAnswer) error {
	if a.Ack == "" {
		return nil
	}
	ack, err := u.openAck(a.Ack)
	if err != nil {
		return err
	}
	if err := u.storeAck(ctx, ack); errors.Is(err, ErrStopped) {
		u.refuse(faultCode(err))
		u.askRewind(ack.Position) // the journal's lane finds the same and stops
		return nil
	} else if !errors.Is(err, ledger.ErrAckEpoch) { // of the journal before a reset: its time is good all the same
		return err
	}
	return nil
}

// storeAck makes a countersigned head durable. ErrStopped means that central has signed
// for what the ledger does not hold.
func (u *Uplink) storeAck(ctx context.Context, a wire.Ack) error {
	err := u.opt.Ledger.Ack(ctx, a)
	switch {
	case errors.Is(err, ledger.ErrAckAhead):
		return fmt.Errorf("%w: %w", ErrHeadBehind, err)
	case errors.Is(err, ledger.ErrAckFork):
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case errors.Is(err, ledger.ErrAckEpoch):
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// compare looks whether central still holds what it had signed for before it was asked,
// and no more than there is. One that was put back to an earlier state gets the journal
// from there again: the ledger never removes an entry. When it holds more, the ledger was
// put back: nothing is paid from now on.
func (u *Uplink) compare(ctx context.Context, before, now wire.Position) error {
	head, err := u.opt.Ledger.HeadPosition(ctx) // it may have grown, and been sent, since hello was said
	if err != nil {
		return err
	}
	if now.Epoch < before.Epoch {
		now = wire.Position{Epoch: before.Epoch}
	}
	more := now.Epoch > head.Epoch || now.Epoch == head.Epoch && now.Seq > head.Seq
	if more {
		u.refuse(CodeBehind)
	}
	if more || now.Seq < before.Seq || now.Seq == before.Seq && now.Seq > 0 && now.Hash != before.Hash {
		u.askRewind(now)
	}
	return nil
}

// askRewind hands the journal's lane a position; the newest counts.
func (u *Uplink) askRewind(p wire.Position) {
	u.mu.Lock()
	u.moved = &p
	u.mu.Unlock()
	signal(u.nudge)
}

// signal wakes whoever waits on a channel of one place, now or when it next waits.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// openAck verifies and reads a countersigned head of this terminal.
func (u *Uplink) openAck(signed string) (wire.Ack, error) {
	text, err := u.openNote(signed)
	if err != nil {
		return wire.Ack{}, fmt.Errorf("acknowledgement: %w", err)
	}
	a, err := wire.ParseAck(text)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if a.Terminal != u.me().Terminal {
		return a, fmt.Errorf("%w: an acknowledgement of terminal %.64q", ErrSignature, a.Terminal)
	}
	u.heardSigned(a.Time)
	a.Note = signed
	return a, nil
}

// openNote returns the text that central's key signed.
func (u *Uplink) openNote(signed string) (string, error) { return u.me().openNote(signed) }

func (i Identity) openNote(signed string) (string, error) {
	n, err := note.Open([]byte(signed), note.VerifierList(i.central...))
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrSignature, strings.TrimSpace(excerpt([]byte(signed))), err)
	}
	return n.Text, nil
}
