package main

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/device/terminal"
	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// What central does to a country beside moving packs: it reports packs stolen, takes unsold
// ones back, stops games and terminals, says messages, sends another policy, gives a terminal
// another one's place, and is put back from a backup. While a backup waits to be used nobody
// at central does anything: what people did since, they would have to do again.

// order is what central forbids. A terminal that has heard of it pays nothing that it
// covers, with a network or without (invariant 15).
type order struct {
	what   string
	item   int64     // of the feed, by which it is heard
	lifted time.Time // zero while it holds
	covers func(s *outlet, l *lot) bool
}

// ready tells whether somebody at central can act.
func (f *fleet) ready() bool { return f.central != nil && f.backup == "" }

// forbid notes what central has just ordered.
func (f *fleet) forbid(what string, covers func(*outlet, *lot) bool) *order {
	o := &order{what: what, covers: covers}
	f.must(f.central.Reader().QueryRow("SELECT coalesce(max(seq), 0) FROM feed").Scan(&o.item))
	f.note("central", "%s", what)
	f.truth.mu.Lock()
	defer f.truth.mu.Unlock()
	f.truth.orders = append(f.truth.orders, o)
	return o
}

// lift has an order end some time later, when somebody can do it.
func (f *fleet) lift(o *order, after time.Duration, do func() error) {
	f.after(after, func() {
		if !f.ready() {
			f.lift(o, 5*time.Minute, do)
			return
		}
		f.must(do())
		f.note("central", "no more: %s", o.what)
		f.truth.mu.Lock()
		defer f.truth.mu.Unlock()
		o.lifted = time.Now()
	})
}

// forbidden is invariant 15 of a payment, by a terminal that had heard the feed up to an item.
func (t *truth) forbidden(s *outlet, l *lot, heard int64, d deed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.orders {
		if heard >= o.item && (o.lifted.IsZero() || o.lifted.After(d.end)) && o.covers(s, l) {
			s.f.breach(15, "%s has paid ticket %03d of pack %d, and had heard: %s", s.name, l.code.Number, l.pack, o.what)
		}
	}
}

// someShop is one with a pack on sale, nil for none.
func (f *fleet) someShop(d *mathrand.Rand) *outlet {
	s := f.shops[d.IntN(len(f.shops))]
	if len(s.packs) == 0 {
		return nil
	}
	return s
}

// theft is of a whole pack or of some of its tickets, which thieves then show in shops.
// Every second pack is found again.
func (f *fleet) theft(_ *outlet, d *mathrand.Rand) {
	s := f.someShop(d)
	if !f.ready() || s == nil {
		return
	}
	pack := s.packs[d.IntN(len(s.packs))]
	code, number := packOf(pack)
	first := uint16(d.IntN(packTickets - 10))
	last, what := first+9, fmt.Sprintf("tickets %d to %d of pack %d are stolen", first, first+9, pack)
	mark := func(act central.PackAct) error {
		_, err := f.central.MarkTickets(f.ctx, code, number, first, last, act)
		return err
	}
	if d.IntN(2) == 0 {
		first, last, what = 0, packTickets, fmt.Sprintf("pack %d is stolen", pack)
		mark = func(act central.PackAct) error {
			do := f.central.ReportStolen
			if act == central.RecoverPack {
				do = f.central.RecoverPacks
			}
			_, err := do(f.ctx, code, number, number)
			return err
		}
	}
	if err := mark(central.StealPack); err != nil {
		f.note(s.name, "%s, and cannot be reported", what) // somebody did before
		return
	}
	f.count("thefts")
	gone := func(l *lot) bool { return l.pack == pack && first <= l.code.Number && l.code.Number <= last }
	o := f.forbid(what, func(_ *outlet, l *lot) bool { return gone(l) })
	f.withdraw(gone, d)
	if d.IntN(2) == 0 {
		f.lift(o, minutes(d, 10, 90), func() error { return mark(central.RecoverPack) })
	}
}

// withdraw takes tickets from sale. Some of them are shown in shops all the same.
func (f *fleet) withdraw(gone func(*lot) bool, d *mathrand.Rand) {
	var loot []*lot
	for _, s := range f.shops {
		s.fresh = slices.DeleteFunc(s.fresh, func(l *lot) bool {
			if gone(l) {
				loot = append(loot, l)
			}
			return gone(l)
		})
	}
	for range min(4, len(loot)) {
		l, s := loot[d.IntN(len(loot))], f.shops[d.IntN(len(f.shops))]
		f.after(minutes(d, 1, 90), func() { s.serve(l) })
	}
}

// sendBack returns a pack of which nothing was sold.
func (f *fleet) sendBack(s *outlet, pack uint32, d *mathrand.Rand) {
	code, number := packOf(pack)
	if _, err := f.central.Return(f.ctx, code, number, number); err != nil {
		f.note(s.name, "pack %d cannot be returned", pack)
		return
	}
	f.count("packs returned")
	f.forbid(fmt.Sprintf("pack %d is returned", pack), func(_ *outlet, l *lot) bool { return l.pack == pack })
	for _, l := range f.lots[pack][:3] {
		thief := f.shops[d.IntN(len(f.shops))]
		f.after(minutes(d, 1, 90), func() { thief.serve(l) })
	}
}

// gameStopped suspends an emission for a while.
func (f *fleet) gameStopped(_ *outlet, d *mathrand.Rand) {
	if !f.ready() {
		return
	}
	block := 1 + d.IntN(2)
	s := central.Suspension{Game: "bingo", Emission: fmt.Sprint(block), Block: d.IntN(2), Reason: "misprint", Operator: "anne"}
	if _, err := f.central.SuspendGame(f.ctx, s); err != nil {
		return // it is already
	}
	f.count("games suspended")
	o := f.forbid(fmt.Sprintf("emission %d is suspended", block), func(_ *outlet, l *lot) bool { return l.block == block })
	f.lift(o, minutes(d, 5, 40), func() error { return f.central.ResumeGame(f.ctx, s) })
}

// paymentsStopped keeps one terminal from paying for a while.
func (f *fleet) paymentsStopped(s *outlet, d *mathrand.Rand) {
	if !f.ready() || f.central.StopPayments(f.ctx, s.name, "inquiry") != nil {
		return
	}
	f.count("terminals stopped")
	o := f.forbid(s.name+" pays nothing", func(at *outlet, _ *lot) bool { return at == s })
	f.lift(o, minutes(d, 5, 60), func() error { return f.central.Resume(f.ctx, s.name) })
}

// message is said to all, or to one shop. Nothing is paid before a mandatory one was read.
func (f *fleet) message(_ *outlet, d *mathrand.Rand) {
	to := f.shops[d.IntN(len(f.shops))]
	if !f.ready() {
		return
	}
	m := central.Message{Mandatory: d.IntN(2) == 0, French: "Faux tickets en circulation.", English: "Forged tickets are about.", Operator: "anne"}
	if d.IntN(2) == 0 {
		m.Terminal = to.name
	}
	m, err := f.central.Send(f.ctx, m)
	f.must(err)
	f.count("messages")
	read := map[string]bool{}
	f.truth.mu.Lock()
	f.truth.readers[m.Number] = read
	f.truth.mu.Unlock()
	f.forbid(fmt.Sprintf("message %d waits to be read", m.Number), func(s *outlet, _ *lot) bool {
		return m.Mandatory && (m.Terminal == "" || m.Terminal == s.name) && !read[s.name]
	})
}

// readMessages is a clerk whom the counter has told to.
func (p *life) readMessages() {
	list, err := p.counter.Messages(p.shop.f.ctx)
	p.shop.f.must(err)
	for _, m := range list {
		if m.Read {
			continue
		}
		asleep(deskWait)
		err := p.counter.ReadMessage(p.shop.f.ctx, m.Number)
		if p.dead.Load() {
			return
		}
		p.shop.f.must(err)
		t := &p.shop.f.truth
		t.mu.Lock()
		t.readers[m.Number][p.shop.name] = true
		t.mu.Unlock()
	}
}

// lowerLimit is what the policy of the next day pays at a counter.
const lowerLimit = 3000

// newPolicy is published in the evening, and holds from the next day in Paris on.
func (f *fleet) newPolicy() {
	if !f.ready() {
		f.after(10*time.Minute, f.newPolicy)
		return
	}
	p := f.limits()
	p.Version, p.ShopLimit, p.ValidFrom = "w2", lowerLimit, policy.DayInParis(f.began).Add(1)
	f.publish(p)
	f.note("central", "another policy is published")
}

func (f *fleet) publish(p policy.Policy) {
	signed, err := note.Sign(&note.Note{Text: p.Text()}, f.signer)
	f.must(err)
	_, err = f.central.PublishPolicy(f.ctx, signed, "anne")
	f.must(err)
}

// hasPolicy tells whether a policy has arrived.
func (p *life) hasPolicy(version string) bool {
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	return slices.ContainsFunc(p.rules.set.List(), func(x policy.Policy) bool { return x.Version == version })
}

// byLimits is invariant 16 of a verdict: the policy of a day holds on that day by true time,
// where it had arrived and the terminal knew the time.
func (f *fleet) byLimits(s *outlet, l *lot, v terminal.View, d deed, knew bool) {
	const slack = 2 * time.Minute
	if l.amount <= lowerLimit || l.amount > f.limits().ShopLimit {
		return
	}
	day := policy.DayInParis(f.began).Add(1)
	switch {
	case v.Stage == terminal.Paid && knew && !policy.DayInParis(d.call.Add(-slack)).Before(day):
		f.breach(16, "%s paid %v at a counter, which the policy in force does not", s.name, l.amount)
	case v.Verdict.Reason == validate.AboveShopLimit && policy.DayInParis(d.end.Add(slack)).Before(day):
		f.breach(16, "%s did not pay %v, by a policy that had not begun", s.name, l.amount)
	}
}

// replaced is a terminal that died: another one is given its place. It comes back all the
// same, its journal with it, or is written off before.
func (f *fleet) replaced(s *outlet, d *mathrand.Rand) {
	by := f.shops[d.IntN(len(f.shops))]
	if !f.ready() || by == s || s.stale || len(s.packs) == 0 {
		return
	}
	s.cutPower()
	if _, err := f.central.Replace(f.ctx, s.name, by.name); err != nil {
		f.note(s.name, "cannot be replaced by %s", by.name)
		s.back()
		return
	}
	f.note(s.name, "is replaced by %s", by.name)
	f.count("terminals replaced")
	f.truth.mu.Lock()
	var all []uint32
	for pack, owner := range f.owner {
		if owner == s {
			all = append(all, pack)
			f.owner[pack] = by
		}
	}
	f.truth.mu.Unlock()
	slices.Sort(all)
	by.packs, by.fresh = append(by.packs, s.packs...), append(by.fresh, s.fresh...)
	s.packs, s.fresh = nil, nil
	for _, pack := range all {
		f.writeOff(s, pack, minutes(d, 20, 400))
	}
	f.after(minutes(d, 5, 300), s.back)
}

// openUp puts a delivered pack on sale: at central, or at the shop by the pack's public code.
// Of sixteen one is sent back.
func (f *fleet) openUp(pack uint32, how int, d *mathrand.Rand) {
	s := f.owner[pack]
	code, number := packOf(pack)
	switch {
	case !f.ready():
		f.after(10*time.Minute, func() { f.openUp(pack, how, d) })
		return
	case how == 0:
		f.sendBack(s, pack, d)
		return
	case how < 8:
		if !s.openByCode(pack) {
			f.after(minutes(d, 2, 20), func() { f.openUp(pack, how, d) })
			return
		}
		f.count("packs opened at the shop")
	default:
		if _, err := f.central.Activate(f.ctx, code, number, number); err != nil {
			f.note(s.name, "pack %d cannot be activated", pack)
			return
		}
	}
	f.count("packs")
	s.packs = append(s.packs, pack)
	s.sell(pack)
}

// openByCode scans the code on a pack's ticket and confirms; false when that cannot be done now.
func (s *outlet) openByCode(pack uint32) bool {
	p := s.on
	if p == nil || p.dead.Load() {
		return false
	}
	select {
	case s.desk <- struct{}{}:
		defer func() { <-s.desk }()
	default:
		return false
	}
	gameCode, number := packOf(pack)
	public := ticket.Code{Layout: ticket.G18(), Game: fmt.Sprintf("%05s", gameCode), Pack: number, Number: 0}
	v := p.counter.Check(s.f.ctx, terminal.Scan{Text: public.Digits(), Entered: validate.Scanned})
	if v.Stage != terminal.OnPack || v.Pack == nil {
		s.f.breach(0, "%s: the public code of pack %d shows %q, no pack", s.name, pack, v.Verdict.Reason)
		return false
	}
	v, err := p.counter.ActivateShown(s.f.ctx, v.ID)
	if p.dead.Load() {
		return false // the next try finds it open, or opens it
	}
	if denied := (*terminal.Denied)(nil); errors.As(err, &denied) {
		return false
	}
	s.f.must(err)
	p.counter.Dismiss(v.ID)
	if v.Pack.State != validate.PackActive || !v.Pack.Own {
		return false // it has not heard of it yet, or has lost it
	}
	s.f.note(s.name, "pack %d is put on sale", pack)
	s.f.truth.mu.Lock()
	s.f.truth.opened[pack] = s
	s.f.truth.mu.Unlock()
	return true
}

// centralLost has central's machine burn down: it begins again from a backup that was made
// some minutes before. Shops go on paying in between.
func (f *fleet) centralLost(_ *outlet, d *mathrand.Rand) {
	if !f.ready() {
		return
	}
	f.backup = filepath.Join(f.dir, fmt.Sprintf("backup.%d", f.copies))
	_, err := f.central.Backup(f.ctx, f.backup)
	f.must(err)
	f.note("central", "a backup is made")
	f.after(minutes(d, 1, 15), f.putBack)
}

func (f *fleet) putBack() {
	f.note("central", "its machine burns down")
	f.count("central put back")
	f.stopCentral()
	f.must(os.RemoveAll(f.centralDir()))
	_, err := central.Restore(f.ctx, f.backup, central.Options{Dir: f.centralDir(), Now: time.Now}, false)
	f.must(err)
	f.must(os.RemoveAll(f.backup))
	f.backup = ""
	f.truth.centralForgot(f)
	f.startCentral()
	f.recurringUntil(5*time.Minute, func() bool {
		return f.central == nil || f.central.AllowClaims(f.ctx, "Mme Martin: all were heard", false) != nil
	})
}

// centralForgot is told when central begins again from a backup: until its terminals have
// sent again what it lost it is held to what it then has.
func (t *truth) centralForgot(f *fleet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.heads)
	clear(t.accepted)
	clear(t.epochs)
	t.restores++
	for _, s := range f.shops {
		t.owed[s.name] = true
	}
}

// putBacks counts how often central began again from a backup.
func (t *truth) putBacks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restores
}

// agreement is what must be when every trouble has ended: terminals hold of their packs what
// central does (9), what shops opened is open (15), no order outlives its end (15), and
// nobody's certificate has less than half of its life left (17).
func (f *fleet) agreement() {
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	held := map[uint32]bool{} // by an order that stands
	for _, o := range t.orders {
		for pack, list := range f.lots {
			held[pack] = held[pack] || o.lifted.IsZero() && slices.ContainsFunc(list, func(l *lot) bool { return o.covers(f.shops[0], l) })
		}
	}
	for _, s := range f.shops {
		st := s.on.way.up.Status()
		if st.Suspended() || s.stale {
			continue
		}
		if left := time.Until(st.Expires); left < 45*24*time.Hour {
			f.breach(17, "%s: its certificate ends in %v", s.name, left.Round(time.Hour))
		}
		for _, x := range suspensions(f, s) {
			if !slices.ContainsFunc(t.orders, func(o *order) bool { return o.lifted.IsZero() }) {
				f.breach(15, "%s: %q is suspended for ever", s.name, x)
			}
		}
	}
	f.samePacks(held)
}

// suspensions are those that a shop's ledger holds.
func suspensions(f *fleet, s *outlet) (list []string) {
	all, err := s.on.book.Suspensions(f.ctx)
	f.must(err)
	for _, x := range all {
		list = append(list, fmt.Sprintf("%s %s %d", x.Game, x.Emission, x.Block))
	}
	return list
}

// samePacks holds the packs in the ledgers against central's table.
func (f *fleet) samePacks(held map[uint32]bool) {
	rows, err := f.central.Reader().Query(`SELECT game_code, pack, state, owner, epoch, EXISTS (SELECT 1 FROM pack_rights r
		WHERE r.block_id = p.block_id AND r.pack = p.pack AND r.epoch = p.epoch AND r.kind IN ('forced', 'online')) FROM packs p`)
	f.must(err)
	defer rows.Close()
	for rows.Next() {
		var code, owner string
		var state validate.PackState
		var number uint32
		var epoch int64
		var nobodys bool
		f.must(rows.Scan(&code, &number, &state, &owner, &epoch, &nobodys))
		pack := number
		if strings.TrimLeft(code, "0") == "398" {
			pack += 10000
		}
		if s := f.truth.opened[pack]; s != nil && !held[pack] && !s.restored && !s.stale && !s.on.way.up.Status().Suspended() && state != validate.PackActive && state != validate.PackSettled {
			f.breach(15, "pack %d was put on sale at %s, and is %s at central", pack, s.name, state)
		}
		if nobodys {
			owner = ""
		}
		for _, s := range f.shops {
			if s.on.way.up.Status().Suspended() || s.stale {
				continue
			}
			p, known, err := s.on.book.Pack(f.ctx, fmt.Sprintf("%05s", code), number)
			f.must(err)
			if known && (p.State != state || p.Owner != owner || p.Epoch != epoch) || !known && owner == s.name {
				f.breach(9, "%s: pack %d is %s of %q at epoch %d, at central %s of %q at %d", s.name, pack, p.State, p.Owner, p.Epoch, state, owner, epoch)
			}
		}
	}
	f.must(rows.Err())
}
