package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// trust is whom the terminal believes, from its configuration when it stands alone and
// from its enrolment when it is linked.
type trust struct {
	identity   uplink.Identity // zero for a terminal on its own
	sealKeys   []string
	signatures int
	claimKey   ledger.ClaimKey
}

func loadTrust(c configs.Terminal) (trust, error) {
	t := trust{signatures: 1}
	var err error
	if c.StandAlone {
		t.signatures = c.Signatures
		for _, path := range c.Keys {
			key, err := cli.ReadPublicKey(path)
			if err != nil {
				return t, fmt.Errorf("keys: %w", err)
			}
			t.sealKeys = append(t.sealKeys, key)
		}
		if c.ClaimKey != "" {
			t.claimKey, err = readClaimKey(c.ClaimKey)
		}
		return t, err
	}
	if t.identity, err = uplink.LoadIdentity(c.Identity()); err != nil {
		return t, fmt.Errorf("%w\nTry: terminalctl enrol CODE --central %s --data %s", err, c.Central.URL, c.Data)
	}
	if t.identity.Terminal != c.Name {
		return t, fmt.Errorf("name = %q: this device was enrolled as %q; its ledger and central know it by that name", c.Name, t.identity.Terminal)
	}
	t.sealKeys = t.identity.SealKeys
	if t.claimKey, err = ledger.ParseClaimKey(t.identity.ClaimKey); err != nil {
		return t, fmt.Errorf("identity: %w", err)
	}
	return t, nil
}

// link is the way to central as the counter and the pages see it. The zero link is that
// of a terminal on its own.
type link struct {
	up     *uplink.Uplink
	book   *ledger.Ledger
	blocks *library
	name   string
	ends   map[string]policy.Date // closing notices, of a terminal on its own
	broken error                  // why there is no uplink, of a terminal that should have one
}

// outside is what the link needs of the world beyond the program. The zero outside is
// the real one; a simulation gives its own.
type outside struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	rand func() float64
	now  func() time.Time                   // the device's clock
	book func(*ledger.Ledger) uplink.Ledger // what stands before the ledger
	step func(name string)                  // see uplink.Options
	// policies is called when the folder of policies holds another whole set; nil for nobody.
	policies func()
}

// newLink makes the uplink; register is nil where none is kept, faults gives the codes of
// what does not work.
func newLink(c configs.Terminal, t trust, book *ledger.Ledger, blocks *library, register uplink.Register, faults func() []string, world outside, log *slog.Logger) (*link, error) {
	if c.StandAlone {
		ends, err := catalogueEnds()
		return &link{ends: ends}, err
	}
	if world.book == nil {
		world.book = func(l *ledger.Ledger) uplink.Ledger { return l }
	}
	if c.Central.Proxy != "" {
		var err error
		if world.dial, err = uplink.ThroughProxy(c.Central.Proxy, world.dial); err != nil {
			return nil, err
		}
	}
	var up *uplink.Uplink
	up, err := uplink.New(uplink.Options{URL: c.Central.URL, Identity: t.identity, Ledger: world.book(book), Looks: book,
		Blocks: uplink.BlockStore{Dir: c.Manifests(), Quota: c.QuotaMB << 20, Reserve: c.ReserveMB << 20}, Dial: world.dial, Rand: world.rand, Now: world.now, Log: log,
		Program: version(), Faults: faults, Peppers: blocks.lackPeppers, KeepPepper: blocks.keepPepper, Register: register, Step: world.step,
		Software: updatesOf(c), UpdateDir: c.Updates(), PolicyDir: c.Policies(), OnPolicies: world.policies,
		OnBlocks:    func() { logError(log, "looking for new manifests", blocks.rescan(context.Background())) },
		OnListed:    func() { blocks.know(up.Listed()) },
		OnCatalogue: func() { logError(log, "reading the catalogue", blocks.learn(up.Catalogue)) }, Held: blocks.held})
	switch {
	case err != nil && book.Writable() != nil: // what it needs of the ledger cannot be read
		log.Error("no link to central: the ledger cannot be read", "err", err)
		return &link{broken: err}, nil
	case err != nil:
		return nil, err
	}
	blocks.know(up.Listed()) // from before the start
	logError(log, "reading the catalogue", blocks.learn(up.Catalogue))
	return &link{up: up, book: book, blocks: blocks, name: c.Name}, nil
}

// central is the counter's view: what the feed has said of a ticket's pack.
func (l *link) central() terminal.Central {
	if l.up == nil && l.broken == nil {
		return alone{closed: l.ends}
	}
	return l
}

// Standing tells what central has said, as far as it has arrived here. A pack that the
// feed never named is not known, and so not active. Central may also refuse this
// terminal as a whole: that is known only while it answers.
func (l *link) Standing(ctx context.Context, o validate.Opened) (terminal.Standing, error) {
	if l.broken != nil {
		return terminal.Standing{}, l.broken
	}
	pack, known, err := l.book.Pack(ctx, o.Code.Game, o.Code.Pack)
	if err != nil {
		return terminal.Standing{}, err
	}
	s := terminal.Standing{Asks: true}
	if s.TerminalSuspended, s.GameSuspended, err = l.book.Suspended(ctx, o.Game, o.Emission, o.Number); err != nil {
		return s, err
	}
	s.TerminalSuspended = s.TerminalSuspended || l.up.Refused() != ""
	if known {
		s.Pack, s.OwnerEpoch = pack.State, pack.Epoch
		if pack.Owner == l.name {
			s.Right = validate.RightOwner
		}
		s.Foreign, s.Unheard = pack.Owner != l.name && pack.Owner != "", l.up.Unheard()
	}
	if s.Right == validate.RightOwner {
		gone, err1 := l.book.Released(ctx, o.Code.Game, o.Code.Pack, pack.Epoch)
		held, err2 := l.book.Held(ctx, o.Key())
		if gone || held {
			s.Right = validate.RightNone // central may have allowed another terminal to pay it
		}
		if err := errors.Join(err1, err2); err != nil {
			return s, err
		}
	}
	ticket, err := l.book.TicketState(ctx, o.Code.Game, o.Code.Pack, o.Code.Number)
	if err != nil {
		return s, err
	}
	s.Pack = s.Pack.OfTicket(ticket)
	s.Closed = closedOn(l.up.Listed(), o.Code)
	s.PaidElsewhere, err = l.book.PaidElsewhere(ctx, o.Key())
	return s, err
}

// packs is the counter's view of packs, nil for a terminal on its own.
func (l *link) packs() terminal.Packs {
	if l.up == nil {
		return nil
	}
	return shelf{l}
}

// shelf are the packs of a linked terminal, as the feed and its own journal have them.
type shelf struct{ *link }

// Pack is what is known of a pack here.
func (s shelf) Pack(ctx context.Context, gameCode string, pack uint32) (validate.Pack, error) {
	return s.book.PackFacts(ctx, gameCode, pack)
}

// Inventory are the packs that central has said are this terminal's.
func (s shelf) Inventory(ctx context.Context) ([]validate.PackRun, error) {
	items, err := s.book.OwnPacks(ctx)
	list := make([]validate.PackRun, 0, len(items))
	for _, i := range items {
		list = append(list, validate.PackRun{GameCode: i.GameCode, First: i.First, Last: i.Last, State: i.State, Epoch: i.Epoch})
	}
	return list, err
}

// Activate puts a pack on sale, unless central has suspended this terminal, or the pack's
// game, emission or block. Of a block that is not here central decides afterwards.
func (s shelf) Activate(ctx context.Context, gameCode string, pack uint32, operator string, entered validate.Entered) (validate.Pack, error) {
	h, _ := s.blocks.of(gameCode, pack)
	suspended, game, err := s.book.Suspended(ctx, h.Game, h.Emission, h.Number)
	if err != nil {
		return validate.Pack{}, err
	}
	if suspended || s.up.Refused() != "" {
		r := validate.TerminalSuspended
		return validate.Pack{}, &terminal.Denied{Fault: terminal.Fault{Code: r.Code(), ClerkFR: r.Text(money.French).Clerk, ClerkEN: r.Text(money.English).Clerk,
			Technician: r.Technician()}, Err: errors.New("this terminal is suspended")}
	}
	if game {
		p, err := s.book.PackFacts(ctx, gameCode, pack)
		if err == nil && p.Activatable() {
			return p, terminal.ErrGameSuspended
		} else if err != nil {
			return p, err
		}
	}
	p, err := s.book.Activate(ctx, gameCode, pack, operator, entered)
	switch {
	case errors.Is(err, ledger.ErrPack):
		err = fmt.Errorf("%w: %w", terminal.ErrNotForSale, err)
	case errors.Is(err, ledger.ErrSales):
		err = fmt.Errorf("%w: %w", terminal.ErrSalesEnded, err)
	}
	return p, err
}

// messages is the counter's view of what central says, nil for a terminal on its own.
func (l *link) messages() terminal.Messages {
	if l.up == nil {
		return nil
	}
	return notices{l}
}

// notices are central's messages on a linked terminal.
type notices struct{ *link }

// Messages are those in their days by trusted time.
func (n notices) Messages(ctx context.Context) ([]validate.Message, error) {
	all, err := n.book.Messages(ctx)
	now := n.trusted()
	return slices.DeleteFunc(all, func(m validate.Message) bool { return !m.InForce(now) }), err
}

// Read records it in the journal. A message that central took back meanwhile is read, too.
func (n notices) Read(ctx context.Context, number int64, operator string) error {
	err := n.book.ReadMessage(ctx, number, operator)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	return err
}

// closedOn is the closing notice's date of a ticket's emission, as the newest snapshot
// has it; zero while it is open.
func closedOn(listed []wire.Block, c ticket.Code) policy.Date {
	for _, b := range listed {
		if b.GameCode == c.Game && b.FirstPack <= c.Pack && c.Pack <= b.LastPack {
			return b.Closed
		}
	}
	return policy.Date{}
}

// alone is the counter's central on a terminal that has none: its closing notices are
// those of the shipped catalogue.
type alone struct {
	terminal.StandAlone
	closed map[string]policy.Date // by game code without leading zeros
}

// Standing gives the right to pay, and the closing notice.
func (a alone) Standing(ctx context.Context, o validate.Opened) (terminal.Standing, error) {
	s, err := a.StandAlone.Standing(ctx, o)
	s.Closed = a.closed[strings.TrimLeft(o.Code.Game, "0")]
	return s, err
}

// catalogueEnds are the closing notices of the shipped catalogue.
func catalogueEnds() (map[string]policy.Date, error) {
	games, err := configs.Games()
	if err != nil {
		return nil, err
	}
	closed := map[string]policy.Date{}
	for _, g := range games {
		for _, e := range g.Emissions {
			if e.GameCode == nil || e.Closes == nil {
				continue
			}
			if closed[strings.TrimLeft(*e.GameCode, "0")], err = policy.ParseDate(*e.Closes); err != nil {
				return nil, fmt.Errorf("game %s: %w", g.ID, err)
			}
		}
	}
	return closed, nil
}

// trusted is the newest trusted time, zero when no signed time was heard since the start.
func (l *link) trusted() time.Time {
	if l.up == nil {
		return time.Time{}
	}
	return l.up.Trusted()
}

// fault words for the counter why central's side keeps this terminal from paying, nil for
// nothing.
func (l *link) fault() *terminal.Fault {
	if l.up == nil {
		return nil
	}
	m := uplink.MeaningOf(l.up.Refused())
	if m == nil {
		return nil
	}
	return &terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Text}
}

// run works until ctx ends.
func (l *link) run(ctx context.Context) error {
	if l.up == nil {
		return nil
	}
	err := l.up.Run(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// maxNotCredited bounds what the socket tells of entries that were not credited.
const maxNotCredited = 20

// notCredited tells what central did not credit: as the feed has said, over restarts, or
// as its answers have since the start.
func (l *link) notCredited(out *control.Link) error {
	ctx := context.Background()
	open, err1 := l.book.OpenExceptions(ctx)
	list, err2 := l.book.Exceptions(ctx, maxNotCredited)
	for _, x := range list {
		out.NotCredited = append(out.NotCredited, control.NotCredited{Number: validate.EntryNumber{Epoch: x.Epoch, Seq: x.Seq}.String(), Kind: string(x.Kind), Text: x.Text, Settled: x.Settled})
	}
	if len(list) > 0 || open > 0 { // a central that tells by the feed knows better than a count since the start
		out.Exceptions = open
	}
	return errors.Join(err1, err2)
}

// reread takes what somebody has put beside the blocks.
func (l *link) reread(ctx context.Context) error {
	if l.up == nil {
		return nil
	}
	return l.up.Reread(ctx)
}

// status is the link for the socket, nil when there is none.
func (l *link) status() *control.Link {
	if l.broken != nil {
		return &control.Link{Faults: []control.Fault{{Code: uplink.CodeStore, Clerk: "all", Technician: l.broken.Error()}}}
	}
	if l.up == nil {
		return nil
	}
	st := l.up.Status()
	out := &control.Link{Contact: st.Contact, Acked: validate.EntryNumber{Epoch: st.Acked.Epoch, Seq: st.Acked.Seq}.String(),
		Entries: st.Unsent, Snapshot: st.Snapshot, Feed: st.Feed, Exceptions: st.Exceptions, Certificate: st.Expires, Faults: []control.Fault{},
		Region: st.Region, QuotaBytes: st.Quota, TakenBytes: st.Taken, Missing: []control.MissingBlock{}, Suspended: []control.Suspension{}, NotCredited: []control.NotCredited{}}
	suspended, err := l.book.Suspensions(context.Background())
	if err != nil {
		out.Faults = append(out.Faults, control.Fault{Code: uplink.CodeStore, Clerk: "all", Technician: err.Error()})
	}
	for _, s := range suspended {
		out.Suspended = append(out.Suspended, control.Suspension{Game: s.Game, Emission: s.Emission, Block: s.Block, Reason: s.Reason})
	}
	if err := l.notCredited(out); err != nil {
		out.Faults = append(out.Faults, control.Fault{Code: uplink.CodeStore, Clerk: "all", Technician: err.Error()})
	}
	for _, m := range st.Missing {
		out.Missing = append(out.Missing, control.MissingBlock{GameCode: m.GameCode, FirstPack: m.FirstPack, LastPack: m.LastPack, Bytes: m.Size, Own: m.Own, Why: string(m.Why)})
	}
	if st.Refused != "" {
		technician := "central refuses this terminal: nothing is paid until central takes it back"
		if m := uplink.MeaningOf(st.Refused); m != nil {
			technician = m.Text
		}
		out.Faults = append(out.Faults, control.Fault{Code: st.Refused, Clerk: "all", Technician: technician})
	}
	for _, f := range st.Faults {
		out.Faults = append(out.Faults, control.Fault{Code: f.Code, Clerk: string(f.Lane), Technician: f.Text})
	}
	return out
}
