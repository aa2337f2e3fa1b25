package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/sync/ledger"
	"grattoir/validate"
)

// event is something that happens again and again, at random moments, to each shop or to
// the whole country. What it needs of chance it takes from dice of its own: a new event
// moves none of the others.
type event struct {
	name    string
	every   time.Duration // on average
	country bool          // to the fleet, with no shop
	trouble bool          // rare in a calm fleet
	do      func(f *fleet, s *outlet, d *mathrand.Rand)
}

// events is all that happens. One more is a line here and a function.
var events = []event{
	{name: "customer", every: 90 * time.Second, do: (*fleet).customer},
	{name: "stranger", every: 15 * time.Minute, do: (*fleet).stranger},
	{name: "twice", every: 3 * time.Hour, do: (*fleet).twice},
	{name: "same again", every: 50 * time.Minute, do: (*fleet).sameAgain},
	{name: "reversal", every: 2 * time.Hour, do: (*fleet).reversal},
	{name: "decision", every: 15 * time.Minute, country: true, do: (*fleet).decision},
	{name: "delivery", every: 4 * time.Hour, do: (*fleet).delivery},
	{name: "move", every: 40 * time.Minute, country: true, do: (*fleet).move},
	{name: "theft", every: 2 * time.Hour, country: true, do: (*fleet).theft},
	{name: "message", every: 3 * time.Hour, country: true, do: (*fleet).message},
	{name: "closing", every: 80 * time.Minute, do: (*fleet).shopCloses},
	{name: "paper out", every: 6 * time.Hour, do: (*fleet).paperOut},
	{name: "reprint", every: time.Hour, do: (*fleet).reprint},
	{name: "day ends", every: 8 * time.Hour, do: (*fleet).dayEnds},

	{name: "link down", every: 3 * time.Hour, trouble: true, do: (*fleet).linkDown},
	{name: "link rough", every: 2 * time.Hour, trouble: true, do: (*fleet).linkRough},
	{name: "link cut", every: 90 * time.Minute, trouble: true, do: (*fleet).linkCut},
	{name: "power cut", every: 3 * time.Hour, trouble: true, do: (*fleet).powerCut},
	{name: "power cut at a step", every: 3 * time.Hour, trouble: true, do: (*fleet).powerCutAtStep},
	{name: "restart", every: 6 * time.Hour, trouble: true, do: (*fleet).restart},
	{name: "clock set", every: 2 * time.Hour, trouble: true, do: (*fleet).clockSet},
	{name: "old card", every: 40 * time.Hour, trouble: true, do: (*fleet).oldCard},
	{name: "payments stopped", every: 60 * time.Hour, trouble: true, do: (*fleet).paymentsStopped},
	{name: "replaced", every: 60 * time.Hour, trouble: true, do: (*fleet).replaced},
	{name: "game suspended", every: 4 * time.Hour, country: true, trouble: true, do: (*fleet).gameStopped},
	{name: "central lost", every: 16 * time.Hour, country: true, trouble: true, do: (*fleet).centralLost},
	{name: "suspension", every: 80 * time.Hour, trouble: true, do: (*fleet).suspension},
	{name: "central down", every: 2 * time.Hour, country: true, trouble: true, do: (*fleet).centralDown},
	{name: "country cut off", every: 5 * time.Hour, country: true, trouble: true, do: (*fleet).countryCutOff},
}

// calmer is how much rarer trouble is in the standard fleet.
const calmer = 40

// plan has every event begin.
func (f *fleet) plan(calm bool) {
	for _, e := range events {
		switch {
		case e.trouble && calm:
			e.every *= calmer
		case calm && e.name == "stranger":
			e.every /= 8
		case calm && e.name == "customer": // tickets are left for them
			e.every *= 4
		}
		if f.plant.rush && slices.Contains([]string{"customer", "stranger"}, e.name) {
			e.every /= 8
		}
		if e.country {
			f.recur(e, nil)
			continue
		}
		for _, s := range f.shops {
			f.recur(e, s)
		}
	}
	f.after(20*time.Minute, f.newPolicy)
	f.recurring(3*time.Minute, f.look)
	f.recurring(time.Hour, f.audit)
	for at, act := range f.plant.at {
		f.after(at, func() { act(f) })
	}
}

func (f *fleet) recurring(every time.Duration, do func()) {
	var again func()
	again = func() { do(); f.after(every, again) }
	f.after(every, again)
}

// recur has an event happen after a random time, and again after that.
func (f *fleet) recur(e event, s *outlet) {
	name := e.name
	if s != nil {
		name += " " + s.name
	}
	d := f.dice(name)
	var again func()
	gap := func() time.Duration { return time.Duration(d.ExpFloat64()*float64(e.every)) + time.Second }
	again = func() {
		e.do(f, s, d)
		f.after(gap(), again)
	}
	f.after(gap(), again)
}

func minutes(d *mathrand.Rand, low, high float64) time.Duration {
	return time.Duration((low + d.Float64()*(high-low)) * float64(time.Minute))
}

// customer buys a ticket, scratches it and shows it.
func (f *fleet) customer(s *outlet, d *mathrand.Rand) {
	if l := s.sellOne(d); l != nil {
		s.serve(l)
	}
}

// sellOne hands a ticket over the counter, nil when the shop has none or is shut.
func (s *outlet) sellOne(d *mathrand.Rand) *lot {
	if s.on == nil || len(s.fresh) == 0 {
		return nil
	}
	i := d.IntN(len(s.fresh))
	l := s.fresh[i]
	s.fresh = slices.Delete(s.fresh, i, i+1)
	l.at = s
	return l
}

// stranger bought his ticket elsewhere; later he goes where he bought it, whatever he was told.
func (f *fleet) stranger(s *outlet, d *mathrand.Rand) {
	home := f.shops[d.IntN(len(f.shops))]
	if home == s {
		return
	}
	l := home.sellOne(d)
	if l == nil {
		return
	}
	s.serve(l)
	f.after(minutes(d, 5, 90), func() { home.serve(l) })
}

// twice is a ticket and its copy, at two counters within seconds.
func (f *fleet) twice(s *outlet, d *mathrand.Rand) {
	l := s.sellOne(d)
	if l == nil {
		return
	}
	other := f.shops[d.IntN(len(f.shops))]
	f.after(time.Duration(d.IntN(3000))*time.Millisecond, func() { other.serve(l) })
	f.after(time.Duration(d.IntN(3000))*time.Millisecond, func() { s.serve(l) })
}

// sameAgain is a ticket that was shown before.
func (f *fleet) sameAgain(s *outlet, d *mathrand.Rand) {
	for range min(5, len(s.packs)) {
		list := f.lots[s.packs[d.IntN(len(s.packs))]]
		if l := list[d.IntN(len(list))]; l.at != nil {
			s.serve(l)
			return
		}
	}
}

// serve has a customer show a ticket at a counter: the clerk scans it, and pays when the
// screen says so. Whoever finds somebody at the counter goes away.
func (s *outlet) serve(l *lot) {
	p := s.on
	if p == nil || p.dead.Load() {
		return
	}
	select {
	case s.desk <- struct{}{}:
	default:
		return
	}
	s.f.spawn(func() {
		defer func() { <-s.desk }()
		p.attend(l)
	})
}

func (p *life) attend(l *lot) {
	f, s := p.shop.f, p.shop
	d := deed{key: ticketRound{l.pack, l.code.Number, 0}, shop: s.name, call: time.Now()}
	heard, err := p.book.FeedCursor(f.ctx)
	f.must(err)
	knew := p.hasPolicy("w2") && !p.way.trusted().IsZero()
	v := p.counter.Check(f.ctx, terminal.Scan{Text: l.code.Digits(), Entered: validate.Scanned})
	if p.dead.Load() {
		return // nobody has seen it
	}
	first := v.Verdict
	if v.CanAsk() {
		if v = p.ask(v); p.dead.Load() {
			return
		}
	}
	if v.Verdict.Outcome == validate.Pay {
		v, err = p.counter.Pay(f.ctx, v.ID, terminal.Confirmed{Cash: true})
		if errors.Is(err, terminal.ErrUnread) {
			p.readMessages()
			v, err = p.counter.Pay(f.ctx, v.ID, terminal.Confirmed{Cash: true})
		}
		if err != nil && !p.dead.Load() {
			f.breach(0, "%s: %v: %v", s.name, l.code, err)
			return
		}
		asleep(deskWait) // nobody reads faster; the power may have gone
	}
	if p.dead.Load() {
		return // the journal tells at the next start
	}
	f.note(s.name, "pack %d ticket %03d: %s", l.pack, l.code.Number, v.Verdict.Reason)
	d.end = time.Now()
	f.judge(s, l, first, v, d)
	f.byLimits(s, l, v, d, knew)
	if v.Stage == terminal.Paid {
		f.truth.forbidden(s, l, heard, d)
		d.paid, d.key.round = true, v.Receipt.Round
		f.count("paid")
		booked := p.booked(*v.Receipt)
		f.truth.paid(s, d, *v.Receipt, booked)
		if !booked {
			f.mayBePaidBy(s, l)
		}
	} else if paid := v.Verdict.Paid; paid != nil {
		d.by = paid.Terminal
		f.truth.mu.Lock()
		f.truth.deeds = append(f.truth.deeds, d)
		f.truth.mu.Unlock()
	}
}

// booked tells whether a claim was made at somebody's risk: the entry before it says so.
func (p *life) booked(r validate.Receipt) (is bool) {
	p.shop.f.must(p.book.Lines(p.shop.f.ctx, r.Number.Epoch, r.Number.Seq-1, func(_ int64, line []byte) error {
		e, err := ledger.ParseEntry(line)
		if err == nil && e.Kind == ledger.KindBookedRisk {
			b, err := e.BookedRisk()
			is = is || b.Claim == r.ID
			return err
		}
		return err
	}))
	return is
}

// mayBePaidBy is invariant 6 at the moment of a payment: a ticket of another shop's pack is
// paid after that shop has given it up, or the pack, and keeps that on its card.
func (f *fleet) mayBePaidBy(s *outlet, l *lot) {
	f.truth.mu.Lock()
	home := f.owner[l.pack]
	f.truth.mu.Unlock()
	if home == s || s.stale || home.stale {
		return
	}
	p := home.on
	if p == nil || p.dead.Load() {
		return // its card is looked at when it is on again: atMostOnce
	}
	run, known, err := p.book.Pack(f.ctx, l.code.Game, l.code.Pack)
	f.must(err)
	if !known || run.Owner != home.name {
		return
	}
	held, err := p.book.Held(f.ctx, validate.TicketKey{Block: f.ids[l.block], Pack: l.code.Pack, Number: l.code.Number})
	f.must(err)
	gone, err := p.book.Released(f.ctx, l.code.Game, l.code.Pack, run.Epoch)
	f.must(err)
	if !held && !gone {
		f.breach(6, "%s has paid a ticket of pack %d, which %s may still pay with no network", s.name, l.pack, home.name)
	}
}

// ask has central asked, and waits for its word as long as a player does. Where the owner
// does not answer the clerk asks once more, when the page says.
func (p *life) ask(v terminal.View) terminal.View {
	p.shop.f.count("asked")
	v = p.askOnce(v)
	if v.Verdict.Reason == validate.OwnerSilent && !p.dead.Load() {
		asleep(30*time.Second + deskWait)
		if state, _ := p.counter.State(); state.View.ID == v.ID && state.View.CanAsk() {
			p.shop.f.count("asked again")
			v = p.askOnce(v)
		} else if state.View.ID == v.ID {
			v = state.View
		}
	}
	asleep(deskWait) // nobody reads faster; the power may have gone
	if v.Verdict.Outcome != validate.Pay && !p.dead.Load() {
		p.counter.Dismiss(v.ID)
	}
	return v
}

func (p *life) askOnce(v terminal.View) terminal.View {
	f := p.shop.f
	v, err := p.counter.Ask(f.ctx, v.ID)
	if err != nil {
		f.breach(0, "%s: asking: %v", p.shop.name, err)
		return v
	}
	patience := time.NewTimer(30 * time.Second)
	defer patience.Stop()
	for v.Verdict.Reason == validate.WaitingForCentral {
		state, changed := p.counter.State()
		if state.View.ID == v.ID {
			if v = state.View; v.Verdict.Reason != validate.WaitingForCentral {
				break
			}
		}
		select {
		case <-changed:
			continue
		case <-patience.C:
		}
		break
	}
	return v
}

// judge holds a verdict against what is true of a ticket (invariant 10: by true time), and
// counts what strangers were told.
func (f *fleet) judge(s *outlet, l *lot, first validate.Verdict, v terminal.View, d deed) {
	const slack = 2 * time.Minute // an answer is on its way for so long at most
	over := f.over(l, d.call.Add(-slack)) && f.over(l, d.end.Add(slack))
	open := !f.over(l, d.call.Add(-slack)) && !f.over(l, d.end.Add(slack))
	switch r := v.Verdict.Reason; {
	case r == validate.ClaimPeriodOver && open:
		f.breach(10, "%s: the claim period of pack %d was called over too soon", s.name, l.pack)
	case v.Stage == terminal.Paid && over:
		f.breach(10, "%s: a ticket of pack %d was paid after its claim period", s.name, l.pack)
	case r == validate.NotAWinner && l.tier > 0, v.Stage == terminal.Paid && int64(v.Receipt.Amount) != int64(l.amount),
		r == validate.NotAuthentic, r == validate.ManifestDamaged:
		f.breach(0, "%s: %v of tier %d: %s", s.name, l.code, l.tier, r)
	}
	f.truth.mu.Lock()
	opened := f.truth.opened[l.pack] == s && f.owner[l.pack] == s
	f.truth.mu.Unlock()
	if opened && !s.stale && !s.restored && v.Verdict.Reason == validate.PackNotActive {
		f.breach(15, "%s has put pack %d on sale, and does not pay it", s.name, l.pack)
	}
	if l.tier == 0 || l.at == s || l.amount > lowerLimit || open == over || over {
		return
	}
	switch first.Reason {
	case validate.AlreadyPaidHere, validate.AlreadyPaidElsewhere, validate.TerminalSuspended, validate.GameSuspended, validate.PackStolen, validate.PackReturned:
		return // told what is so
	}
	switch v.Verdict.Reason {
	case validate.AlreadyPaidElsewhere, validate.PrinterNotReady, validate.GameSuspended, validate.PackStolen:
		return // so central says, and no printer is central's
	}
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreign++
	if v.Stage != terminal.Paid {
		t.referred++
		t.told = append(t.told, f.whyReferred(s, l, v.Verdict.Reason))
		t.reasons[v.Verdict.Reason]++
	}
}

// whyReferred words how a ticket's owner was when a stranger was sent away.
func (f *fleet) whyReferred(s *outlet, l *lot, why validate.Reason) string {
	home := f.owner[l.pack]
	if home == nil || l.at == nil {
		return fmt.Sprintf("%s %s, pack %d, of nobody or never sold: %s", time.Now().UTC().Format("15:04:05"), s.name, l.pack, why)
	}
	how := "off"
	if home.on != nil {
		how = "on"
	}
	if home.gave {
		how += ", gives its packs up"
	}
	return fmt.Sprintf("%s %s, pack %d: %s; owner %s, sold at %s, is %s", time.Now().UTC().Format("15:04:05"), s.name, l.pack, why, home.name, l.at.name, how)
}

// reversal asks for one of the newest payments to be taken back.
func (f *fleet) reversal(s *outlet, d *mathrand.Rand) {
	p := s.on
	if p == nil || p.dead.Load() {
		return
	}
	list, err := p.book.Last(f.ctx, 5)
	f.must(err)
	if len(list) == 0 {
		return
	}
	r := list[d.IntN(len(list))]
	var id [16]byte
	for i := range id {
		id[i] = byte(d.Uint32())
	}
	_, err = (&behindCounter{journal: journal{Ledger: p.book}, p: p}).RequestReversal(f.ctx,
		validate.Reversal{ID: hex.EncodeToString(id[:]), Number: r.Number, Reason: validate.PaidByMistake, Operator: "marie", Manager: "odile"})
	f.note(s.name, "asks to take back %v: %t", r.Number, err == nil)
}

// decision is central's about the oldest of the reversals that it was asked for.
func (f *fleet) decision(_ *outlet, d *mathrand.Rand) {
	if !f.ready() {
		return
	}
	list, err := f.central.Reversals(f.ctx, false)
	f.must(err)
	if len(list) == 0 {
		return
	}
	r := list[0]
	var n validate.EntryNumber
	_, err = fmt.Sscanf(r.Number, "%d-%d", &n.Epoch, &n.Seq)
	f.must(err)
	accepted := d.IntN(4) > 0
	_, err = f.central.Decide(f.ctx, r.Terminal, n, accepted, "")
	if err != nil { // what was never credited cannot be taken back
		_, err = f.central.Decide(f.ctx, r.Terminal, n, false, "")
		f.must(err)
		accepted = false
	}
	f.note("central", "reversal of %s %v: %t", r.Terminal, r.Number, accepted)
	if accepted {
		f.count("reversals")
		f.truth.mu.Lock()
		// It reaches the counters some time between now and the end.
		f.truth.deeds = append(f.truth.deeds, deed{key: ticketRound{f.blockPack(r.Block, r.Pack), r.Ticket, r.Round}, shop: r.Terminal, call: time.Now(), end: f.until.Add(24 * time.Hour), freed: true})
		f.truth.mu.Unlock()
	}
}

// delivery brings a pack, which goes on sale some time later.
func (f *fleet) delivery(s *outlet, d *mathrand.Rand) {
	pack := f.nextPack
	if !f.ready() || pack > uint32(6*f.size+8) {
		return
	}
	f.nextPack++
	f.truth.mu.Lock()
	f.owner[pack] = s
	f.truth.mu.Unlock()
	code, number := packOf(pack)
	if _, err := f.central.Deliver(f.ctx, code, number, number, s.name); err != nil {
		f.note(s.name, "no pack may be delivered") // it is suspended
		return
	}
	f.note(s.name, "pack %d is delivered", pack)
	how := d.IntN(16)
	f.after(minutes(d, 1, 30), func() { f.openUp(pack, how, d) })
}

// move gives a shop's pack to another, by force where its owner has not given it up. An
// owner that stays silent is written off after a while.
func (f *fleet) move(_ *outlet, d *mathrand.Rand) {
	from, to := f.shops[d.IntN(len(f.shops))], f.shops[d.IntN(len(f.shops))]
	if !f.ready() || from == to || len(from.packs) < 2 || from.stale {
		return
	}
	i, force := d.IntN(len(from.packs)), !from.gave
	pack := from.packs[i]
	code, number := packOf(pack)
	if _, err := f.central.MovePacks(f.ctx, code, number, number, to.name, force); err != nil {
		f.note(from.name, "pack %d cannot be moved to %s", pack, to.name)
		return
	}
	f.note(from.name, "pack %d is moved to %s, by force: %t", pack, to.name, force)
	f.count("moves")
	f.truth.mu.Lock()
	f.owner[pack] = to
	f.truth.mu.Unlock()
	from.packs, to.packs = slices.Delete(from.packs, i, i+1), append(to.packs, pack)
	from.fresh = slices.DeleteFunc(from.fresh, func(l *lot) bool {
		if l.pack == pack {
			to.fresh = append(to.fresh, l)
		}
		return l.pack == pack
	})
	if !force {
		return
	}
	f.writeOff(from, pack, minutes(d, 20, 120))
}

// writeOff gives up what a pack's owner may have paid of it, unless its journal has come.
func (f *fleet) writeOff(from *outlet, pack uint32, after time.Duration) {
	code, number := packOf(pack)
	f.after(after, func() {
		if !f.ready() {
			return
		}
		if _, err := f.central.WriteOff(f.ctx, code, number, number, "the shop burnt down"); err != nil {
			return // its journal has come
		}
		f.note(from.name, "pack %d is written off", pack)
		f.count("packs written off")
		f.truth.mu.Lock()
		f.lost[pack] = from
		f.truth.mu.Unlock()
	})
}

// shopCloses for the night, but for every eighth, a station's; some have their machine on
// again before the morning.
func (f *fleet) shopCloses(s *outlet, d *mathrand.Rand) {
	if s.on == nil || s.night {
		return
	}
	f.count("closings")
	s.shut = true
	long := minutes(d, 120, 600)
	switch how := d.IntN(4); {
	case how == 0 && !f.calm:
		s.cutPower() // by the switch at the wall
	case how == 1 && !f.calm:
		s.off()
	default:
		s.release()
		f.after(minutes(d, 0.1, 1), s.off)
	}
	f.after(long, func() { s.shut = false; s.back() })
}

// release gives the shop's packs up for the night; it asks for them again when it opens.
func (s *outlet) release() {
	p := s.on
	if p.dead.Load() {
		return
	}
	runs, err := (&behindCounter{journal: journal{Ledger: p.book}, p: p}).ReleasePacks(s.f.ctx, "marie", true)
	s.f.must(err)
	s.f.note(s.name, "gives up %d runs of packs", runs)
	s.f.count("releases")
	s.gave = true
}

// back gives a machine its power, unless it has it, or the shop is shut.
func (s *outlet) back() {
	if s.on != nil || s.shut {
		return
	}
	s.power()
	if s.gave && !s.stale {
		s.gave = false
		s.f.must(s.on.counter.TakePacks(s.f.ctx))
	}
}

func (f *fleet) paperOut(s *outlet, d *mathrand.Rand) {
	p := s.on
	if p == nil {
		return
	}
	p.printer.Break(terminaltest.PaperOut())
	f.after(minutes(d, 1, 10), func() { p.printer.Break(nil) })
}

// reprint is asked for where the screen says that a slip may not have come out.
func (f *fleet) reprint(s *outlet, _ *mathrand.Rand) {
	if s.on == nil || s.on.dead.Load() {
		return
	}
	if state, _ := s.on.counter.State(); len(state.Reprint) > 0 {
		_, err := s.on.counter.Reprint(f.ctx, state.Reprint[0])
		f.note(s.name, "reprint of %v: %t", state.Reprint[0], err == nil)
	}
}

// dayEnds is the Z of a day.
func (f *fleet) dayEnds(s *outlet, _ *mathrand.Rand) {
	if p := s.on; p != nil && !p.dead.Load() {
		_, err := (&behindCounter{journal: journal{Ledger: p.book}, p: p}).Z(f.ctx, validate.DayClosing, "marie")
		f.note(s.name, "Z: %t", err == nil)
	}
}

func (f *fleet) linkDown(s *outlet, d *mathrand.Rand) {
	long := minutes(d, 1, 90)
	f.note(s.name, "the link is down for %v", long.Round(time.Second))
	f.count("links down")
	f.roads.partition(s.name, long)
}

func (f *fleet) linkRough(s *outlet, d *mathrand.Rand) { f.roads.spoil(s.name, minutes(d, 5, 60)) }

func (f *fleet) linkCut(s *outlet, _ *mathrand.Rand) { f.roads.cut(s.name) }

func (f *fleet) powerCut(s *outlet, d *mathrand.Rand) {
	if s.on == nil {
		return
	}
	f.count("power cuts")
	s.cutPower()
	f.after(minutes(d, 0.1, 20), s.back)
}

// powerCutAtStep takes the power at a step of the next act, so close to it as no moment is.
func (f *fleet) powerCutAtStep(s *outlet, d *mathrand.Rand) {
	steps := []string{"opened", "shown", "recorded", "paid-shown", "sending", "sent", "marked",
		"intended", "answer", "answered", "answer-shown", "given-back", "hold-told"}
	s.cutAt.Store(steps[d.IntN(len(steps))])
	f.recurringUntil(time.Minute, func() bool {
		if s.on == nil || !s.on.dead.Load() {
			return s.cutAt.Load() != "" // it has not come to that step yet
		}
		s.off()
		f.after(minutes(d, 0.1, 20), s.back)
		return false
	})
}

func (f *fleet) recurringUntil(every time.Duration, on func() bool) {
	f.after(every, func() {
		if on() {
			f.recurringUntil(every, on)
		}
	})
}

func (f *fleet) restart(s *outlet, d *mathrand.Rand) {
	if s.on == nil {
		return
	}
	s.off()
	f.after(minutes(d, 0.1, 5), s.back)
}

// clockSet sets the device's clock: a board without a battery, a hand, a false server.
func (f *fleet) clockSet(s *outlet, d *mathrand.Rand) {
	if f.plant.setClocks {
		d.IntN(2)
		return
	}
	const day = 24 * time.Hour
	shifts := []time.Duration{0, -30 * 365 * day, 20 * 365 * day, -14 * day, 40 * day, 3 * time.Minute, -3 * time.Minute, -time.Second}
	s.shift.Store(int64(shifts[d.IntN(len(shifts))]))
}

// oldCard puts an earlier copy of the card back: somebody clones it, and later it is used.
func (f *fleet) oldCard(s *outlet, d *mathrand.Rand) {
	if s.on == nil || s.spare != "" {
		return
	}
	s.cutPower()
	s.spare = filepath.Join(f.dir, s.name+".spare")
	f.must(copyFiles(s.dir, s.spare))
	s.power()
	f.after(minutes(d, 20, 120), func() { s.useOldCard(d) })
}

func (s *outlet) useOldCard(d *mathrand.Rand) {
	if s.on != nil && !s.on.dead.Load() {
		s.f.audit() // what it wrote till now is known
	}
	s.cutPower()
	s.f.note(s.name, "an older copy of the card is put in")
	s.f.count("old cards")
	dir := filepath.Join(s.f.dir, fmt.Sprintf("%s.old%d", s.name, s.lives))
	s.f.must(copyFiles(s.spare, dir))
	s.dir = dir
	s.f.truth.forget(s, true)
	s.power()
	s.f.after(minutes(d, 5, 60), func() { s.f.agree(s, d) })
}

// agree is a person at central who has looked at a frozen terminal; she looks again later
// at one that is not frozen yet.
func (f *fleet) agree(s *outlet, d *mathrand.Rand) {
	if !s.stale {
		return
	}
	if f.ready() {
		if epoch, err := f.central.Recover(f.ctx, s.name); err == nil {
			f.note(s.name, "may go on in epoch %d", epoch)
		}
	}
	f.after(minutes(d, 5, 60), func() { f.agree(s, d) })
}

func (f *fleet) suspension(s *outlet, _ *mathrand.Rand) {
	if !f.ready() {
		return
	}
	f.note(s.name, "is suspended")
	f.must(f.central.Suspend(f.ctx, s.name, "stolen"))
	f.count("suspensions")
}

func (f *fleet) centralDown(_ *outlet, d *mathrand.Rand) {
	if f.central == nil {
		return
	}
	f.note("central", "the power goes")
	f.count("central down")
	f.stopCentral()
	f.after(minutes(d, 0.05, 15), f.centralBack)
}

func (f *fleet) centralBack() {
	if f.central != nil {
		return
	}
	f.startCentral()
	f.note("central", "is back")
	f.audit()
}

func (f *fleet) countryCutOff(_ *outlet, d *mathrand.Rand) {
	f.count("country cut off")
	f.roads.partition("", minutes(d, 1, 28))
}
