package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// truth is what an observer who sees everything knows, and what the invariants are held
// against. It asks the shipping code for files and tables, never for a verdict on itself.
//
//  1. Of a ticket's round at most one claim is accepted at central, and stays that; all
//     others are conflicts with their bytes.
//  2. What was shown or printed as paid is in the journal, wherever the power went.
//  3. What central acknowledged it holds, whatever falls; what it did not, the terminal holds.
//  4. In one journal epoch numbers have no gap, hashes chain, no number has two bodies.
//  5. Central's head never goes back, and no terminal has stored more than it.
//  6. At each moment one party at most may pay a ticket, but for booked risks and packs that
//     were written off; owner epochs only rise.
//  7. Claims that nobody allowed stay within the allowance, over restarts and set clocks.
//  8. A request repeated changes nothing and gets the first answer.
//  9. Snapshot and feed cursor never go back; a visible block is whole.
//  10. No verdict follows from a device's clock.
//  11. Faults over, every entry is soon acknowledged, and no ticket stays locked.
//  12. Per terminal and day: paid = accepted + conflicts + in transit.
//  13. Requests and logs keep their bounds. (The disk's reserve is proven in sync/ledger.)
//  14. Old clients go on working: proven by the recorded exchanges of sync/wire, not here.
//  15. Who has heard that central forbids something does not pay it: stolen and returned packs
//     and tickets, suspended games and terminals, messages that nobody has read. A pack that a
//     shop has put on sale is on sale there from then on, and at central in the end.
//  16. The policy of a day holds on that day by true time, wherever it has arrived.
//  17. Certificates are renewed in time, and after their end.
//
// A card that was put back pays what it does not know of until it has met central: its
// payments of that time are excused, as are those that were lost with it.
type truth struct {
	mu       sync.Mutex
	payments map[string]*payment // by claim id
	order    []*payment
	acks     map[string]wire.Ack // newest stored by each shop
	stored   map[string]wire.Ack // newest that any card of a shop ever stored
	heads    map[string]wire.Position
	accepted map[ticketRound]string // claim id at central
	bodies   map[bodyKey]string     // hash of the line
	ends     map[string]ledger.Head // of each shop's journal, when it was last on
	marks    map[string][2]int64    // snapshot and feed cursor of each shop
	owners   map[string]map[uint32]int64
	epochs   map[uint32]int64 // owner epochs at central
	deeds    []deed
	orders   []*order
	opened   map[uint32]*outlet        // packs put on sale at a shop
	readers  map[int64]map[string]bool // who has read a message
	owed     map[string]bool           // shops that have not sent again what a restored central lost
	restores int

	foreign, referred int
	reasons           map[validate.Reason]int // of those that were referred
}

type ticketRound struct {
	pack   uint32
	number uint16
	round  int
}

type bodyKey struct {
	shop       string
	epoch, seq int64
}

// payment is a claim that a shop's ledger took.
type payment struct {
	shop      *outlet
	key       ticketRound
	claim     string
	number    validate.EntryNumber
	amount    int64
	shown     bool // somebody read PAID
	originals int  // slips without DUPLICATA
	granted   bool // central had to allow it
	stale     bool // made by a card that was put back, before it met central
	booked    bool // a risk that the policy takes
	told      bool // a breach about it was told
}

// deed is one act on a ticket, for porcupine.
type deed struct {
	key       ticketRound
	shop      string
	call, end time.Time
	paid      bool
	by        string // of an answer "paid already": by whom
	freed     bool   // a reversal was accepted
}

func newTruth() truth {
	return truth{payments: map[string]*payment{}, acks: map[string]wire.Ack{}, stored: map[string]wire.Ack{}, heads: map[string]wire.Position{}, accepted: map[ticketRound]string{},
		bodies: map[bodyKey]string{}, ends: map[string]ledger.Head{}, marks: map[string][2]int64{}, owners: map[string]map[uint32]int64{}, epochs: map[uint32]int64{},
		reasons: map[validate.Reason]int{}, opened: map[uint32]*outlet{}, readers: map[int64]map[string]bool{}, owed: map[string]bool{}}
}

// paid notes a claim that was shown as paid.
func (t *truth) paid(s *outlet, d deed, r validate.Receipt, booked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.payments[r.ID] == nil {
		t.deeds = append(t.deeds, d)
	}
	pay := t.claim(s, d.key, r.ID, r.Number, int64(r.Amount))
	pay.shown = true
	if booked {
		pay.booked, pay.granted = true, false
	}
	t.withinAllowance(s)
}

func (t *truth) claim(s *outlet, key ticketRound, id string, n validate.EntryNumber, amount int64) *payment {
	if p := t.payments[id]; p != nil {
		if n.Epoch > p.number.Epoch {
			p.number = n // carried into a new epoch
		}
		return p
	}
	p := &payment{shop: s, key: key, claim: id, number: n, amount: amount, stale: s.stale, granted: s.granted(key, id)}
	t.payments[id] = p
	t.order = append(t.order, p)
	return p
}

// granted tells whether central allowed a claim: then there was an intent of it.
func (s *outlet) granted(key ticketRound, claim string) bool {
	block, pack := 1, key.pack
	if pack > 10000 {
		block, pack = 2, pack-10000
	}
	i, err := s.on.book.Intent(s.f.ctx, validate.TicketKey{Block: s.f.ids[block], Pack: pack, Number: key.number})
	s.f.must(err)
	return i != nil && i.Claim == claim
}

// withinAllowance is invariant 7: what lies above the newest acknowledgement that the shop
// has stored stays within what central allows.
func (t *truth) withinAllowance(s *outlet) {
	if s.stale {
		return // what an older card pays is bounded by what it knew
	}
	var claims, minor int64
	acked := t.acks[s.name].Position
	for _, p := range slices.Backward(t.order) {
		if p.shop == s && !p.stale && (p.number.Epoch != acked.Epoch && acked.Epoch > 0 || p.number.Seq <= acked.Seq) {
			break
		}
		if p.shop == s && !p.granted && !p.stale {
			claims, minor = claims+1, minor+p.amount
		}
	}
	if claims > fleetClaims || minor > fleetMinor {
		s.f.breach(7, "%s has paid %d claims and %d minor units above entry %d, at most %d and %d", s.name, claims, minor, acked.Seq, fleetClaims, fleetMinor)
	}
}

// printed notes a slip that came out.
func (t *truth) printed(s *outlet, r validate.Receipt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := ticketRound{s.f.lotPack(r), r.Ticket.Number, r.Round}
	if t.payments[r.ID] == nil { // its slip is out before the clerk has read PAID
		t.deeds = append(t.deeds, deed{key: key, shop: s.name, call: s.f.began, end: time.Now(), paid: true})
	}
	p := t.claim(s, key, r.ID, r.Number, int64(r.Amount))
	if r.Copies == 1 {
		if p.originals++; p.originals > 1 && !p.stale {
			s.f.breach(2, "%s printed two slips without DUPLICATA of entry %v", s.name, r.Number)
		}
	}
}

// lotPack is the number by which the simulation knows a receipt's pack.
func (f *fleet) lotPack(r validate.Receipt) uint32 {
	if strings.TrimLeft(r.Slip.GameCode, "0") == "398" {
		return r.Ticket.Pack + 10000
	}
	return r.Ticket.Pack
}

// acked notes an acknowledgement that a shop has stored.
func (t *truth) acked(s *outlet, a wire.Ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.acks[s.name].Position
	if a.Position.Epoch == old.Epoch && a.Position.Seq < old.Seq || a.Position.Epoch < old.Epoch {
		return // an older one; the ledger keeps its own
	}
	t.acks[s.name] = a
	if was := t.stored[s.name].Position; a.Position.Epoch > was.Epoch || a.Position.Seq > was.Seq {
		t.stored[s.name] = a
	}
}

// restored notes that a shop has read its journal again: from here on it is held to
// everything, what central had acknowledged before included.
func (t *truth) restored(s *outlet, epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.stale, s.restored = false, true
	t.acks[s.name] = wire.Ack{Position: wire.Position{Epoch: epoch}}
	t.readJournal(s.f, s)
}

// ended notes the end of a journal when its program has ended.
func (t *truth) ended(s *outlet, p *life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends[s.name] = p.head
}

// forget is called before an older copy of a card is put in. Known means that the observer
// excuses what such a card cannot know.
func (t *truth) forget(s *outlet, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.stale = known; !known {
		delete(t.ends, s.name)
		return
	}
	// Gone with the card is what central never acknowledged.
	acked := t.stored[s.name].Position
	for _, p := range t.order {
		if n := p.number; p.shop == s && (n.Epoch > acked.Epoch || n.Epoch == acked.Epoch && n.Seq > acked.Seq) {
			p.stale = true
		}
	}
	delete(t.ends, s.name)
}

// started looks at what a shop's machine has found on its card (invariants 2, 3 and 4).
func (t *truth) started(f *fleet, s *outlet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	head, was := s.on.book.Head(), t.ends[s.name]
	if was != (ledger.Head{}) && head != was {
		f.breach(3, "%s: the journal ended at %d-%d, and at %d-%d after the start", s.name, was.Epoch, was.Seq, head.Epoch, head.Seq)
	}
	if s.stale { // it begins again from where its card is
		acked, err := s.on.book.Acked(f.ctx)
		f.must(err)
		t.acks[s.name] = wire.Ack{Position: acked}
		delete(t.marks, s.name)
	}
	t.readJournal(f, s)
}

// readJournal reads a shop's whole journal: chained, gapless, one body for each number, and
// every payment that was shown or printed is in it.
func (t *truth) readJournal(f *fleet, s *outlet) {
	in, risk := map[string]bool{}, map[string]bool{}
	for epoch := int64(1); epoch <= s.on.book.Head().Epoch; epoch++ {
		want, prev := int64(1), strings.Repeat("0", 64)
		err := s.on.book.Lines(f.ctx, epoch, 0, func(seq int64, line []byte) error {
			hash := t.body(f, s.name, epoch, seq, line, s.stale)
			e, err := ledger.ParseEntry(line)
			if err != nil {
				return err
			}
			if seq != want || e.Seq != seq || e.Epoch != epoch || e.Prev != prev {
				f.breach(4, "%s: entry %d-%d stands where %d belongs, or does not fit the one before", s.name, epoch, seq, want)
			}
			want, prev = seq+1, hash
			if e.Kind == ledger.KindBookedRisk {
				b, err := e.BookedRisk()
				risk[b.Claim] = true
				return err
			}
			if !e.IsClaim() {
				return nil
			}
			c, err := e.Claim()
			if err != nil {
				return err
			}
			in[c.Claim] = true
			key := ticketRound{f.blockPack(c.Block, c.Pack), c.Ticket, c.Round}
			if t.payments[c.Claim] == nil { // the power went before anybody saw it
				t.deeds = append(t.deeds, deed{key: key, shop: s.name, call: f.began, end: time.Now(), paid: true})
			}
			if p := t.claim(s, key, c.Claim, validate.EntryNumber{Epoch: epoch, Seq: seq}, c.AmountMinor); risk[c.Claim] {
				p.booked, p.granted = true, false
			}
			return nil
		})
		if err != nil {
			f.breach(4, "%s: the journal cannot be read: %v", s.name, err)
		}
	}
	if s.stale {
		return // what the older copy lacks is at central, as far as it was acknowledged
	}
	for _, p := range t.order {
		if p.shop == s && (p.shown || p.originals > 0) && !in[p.claim] && !p.stale && !p.told {
			f.breach(2, "%s showed or printed the payment %v, and its journal does not have it", s.name, p.number)
			p.told = true
		}
	}
}

// body notes what stands under a number, which never changes.
func (t *truth) body(f *fleet, shop string, epoch, seq int64, line []byte, stale bool) string {
	sum := sha256.Sum256(line)
	hash, key := hex.EncodeToString(sum[:]), bodyKey{shop, epoch, seq}
	was, known := t.bodies[key]
	if known && was != hash && !stale {
		f.breach(4, "%s: entry %d-%d has two bodies", shop, epoch, seq)
	}
	if !known && !stale { // what an older copy writes beyond its end is taken back
		t.bodies[key] = hash
	}
	return hash
}

func (f *fleet) blockPack(block validate.BlockID, pack uint32) uint32 {
	if f.ids[2] == block {
		return pack + 10000
	}
	return pack
}

// look checks what can be checked while everything runs (invariants 5, 6, 9 and 13).
func (f *fleet) look() {
	f.lookAtCentral()
	for _, s := range f.shops {
		if p := s.on; p != nil && !p.dead.Load() {
			f.lookAtShop(s, p)
		}
	}
	f.lookAtOwners()
}

func (f *fleet) lookAtCentral() {
	if f.central == nil {
		return
	}
	rows, err := f.central.Reader().Query("SELECT name, ack_epoch, ack_seq, ack_hash FROM terminals")
	f.must(err)
	defer rows.Close()
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	for rows.Next() {
		var name string
		var p wire.Position
		f.must(rows.Scan(&name, &p.Epoch, &p.Seq, &p.Hash))
		was := t.heads[name]
		if p.Epoch < was.Epoch || p.Epoch == was.Epoch && (p.Seq < was.Seq || p.Seq == was.Seq && p.Hash != was.Hash && p.Seq > 0) {
			f.breach(5, "central's head of %s went from %d-%d back to %d-%d", name, was.Epoch, was.Seq, p.Epoch, p.Seq)
		}
		t.heads[name] = p
		a := t.acks[name].Position
		less := a.Epoch > p.Epoch && a.Seq > 0 || a.Epoch == p.Epoch && a.Seq > p.Seq
		if t.owed[name] = t.owed[name] && less; less && !t.owed[name] {
			f.breach(5, "%s has stored an acknowledgement of %d-%d, central holds %d-%d", name, a.Epoch, a.Seq, p.Epoch, p.Seq)
		}
	}
	f.must(rows.Err())
}

func (f *fleet) lookAtShop(s *outlet, p *life) {
	snapshot, err := p.book.Snapshot(f.ctx)
	f.must(err)
	cursor, err := p.book.FeedCursor(f.ctx)
	f.must(err)
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	if was := t.marks[s.name]; snapshot < was[0] || cursor < was[1] {
		f.breach(9, "%s: snapshot and feed cursor went from %v back to %v", s.name, was, [2]int64{snapshot, cursor})
	}
	t.marks[s.name] = [2]int64{snapshot, cursor}
	// A commit of a payment takes a dozen pages, and the log begins anew after 200.
	const most = 320 * 4096
	if info, err := os.Stat(p.config.Ledger() + "-wal"); err == nil && info.Size() > most {
		f.breach(13, "%s: the ledger's write-ahead log has %d bytes, at most %d", s.name, info.Size(), most)
	}
	t.mayPay(f, s, p)
}

// mayPay notes which packs a shop may pay with no network, as its card has it: its own
// that it has not given up. Owner epochs only rise (invariant 6).
func (t *truth) mayPay(f *fleet, s *outlet, p *life) {
	own, err := p.book.OwnPacks(f.ctx)
	f.must(err)
	mine := map[uint32]int64{}
	for _, run := range own {
		for pack := run.First; pack <= run.Last; pack++ {
			gone, err := p.book.Released(f.ctx, run.GameCode, pack, run.Epoch)
			f.must(err)
			if gone {
				continue
			}
			n := pack
			if strings.TrimLeft(run.GameCode, "0") == "398" {
				n += 10000
			}
			mine[n] = run.Epoch
		}
	}
	for pack, epoch := range t.owners[s.name] {
		if now, has := mine[pack]; has && now < epoch && !s.stale {
			f.breach(6, "%s: the owner epoch of pack %d went from %d back to %d", s.name, pack, epoch, now)
		}
	}
	t.owners[s.name] = mine
}

// lookAtOwners is half of invariant 6: no two terminals think a pack theirs. A terminal
// that is off is asked too, by what it knew.
func (f *fleet) lookAtOwners() {
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	owner := map[uint32]string{}
	for _, s := range f.shops {
		for pack := range t.owners[s.name] {
			if other := owner[pack]; other != "" {
				f.breach(6, "%s and %s both may pay pack %d", other, s.name, pack)
			}
			owner[pack] = s.name
		}
	}
}

// audit reads central's tables whole (invariants 1, 3, 6 and 12), and the block files of
// the shops (9).
func (f *fleet) audit() {
	f.look()
	for _, s := range f.shops {
		if s.on != nil && !s.on.dead.Load() {
			f.lookAtFiles(s.on)
		}
	}
	f.truth.mu.Lock()
	defer f.truth.mu.Unlock()
	for _, s := range f.shops {
		if s.on != nil && !s.on.dead.Load() {
			f.truth.readJournal(f, s)
		}
	}
	f.atMostOnce()
	if f.central == nil {
		return
	}
	db := f.central.Reader()
	f.lookAtClaims(db)
	f.lookAtEntries(db)
	f.lookAtMoney(db)
	rows, err := db.Query("SELECT game_code, pack, epoch FROM packs")
	f.must(err)
	defer rows.Close()
	for rows.Next() {
		var code string
		var pack uint32
		var epoch int64
		f.must(rows.Scan(&code, &pack, &epoch))
		if strings.TrimLeft(code, "0") == "398" {
			pack += 10000
		}
		if was := f.truth.epochs[pack]; epoch < was {
			f.breach(6, "central's owner epoch of pack %d went from %d back to %d", pack, was, epoch)
		}
		f.truth.epochs[pack] = epoch
	}
	f.must(rows.Err())
}

// lookAtFiles holds each visible block against its name, which is its hash.
func (f *fleet) lookAtFiles(p *life) {
	list, err := filepath.Glob(filepath.Join(p.config.Manifests(), "*"+manifestSuffix))
	f.must(err)
	for _, path := range list {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		f.must(err)
		sum := sha256.Sum256(data)
		if hex.EncodeToString(sum[:]) != strings.TrimSuffix(filepath.Base(path), manifestSuffix) {
			f.breach(9, "%s: a visible block of %d bytes is not what its name says", p.shop.name, len(data))
		}
	}
}

// atMostOnce is the other half of invariant 6: of a ticket's round one claim at most was
// made, but for risks that are booked and cards that were put back.
func (f *fleet) atMostOnce() {
	first := map[ticketRound]*payment{}
	for _, p := range f.truth.order {
		if p.booked || p.stale || f.lost[p.key.pack] == p.shop {
			continue
		}
		if other := first[p.key]; other != nil && !p.told {
			p.told = true
			f.breach(6, "ticket %03d of pack %d, round %d, was paid by %s (%v) and by %s (%v)", p.key.number, p.key.pack, p.key.round,
				other.shop.name, other.number, p.shop.name, p.number)
		}
		if first[p.key] == nil {
			first[p.key] = p
		}
	}
}

// lookAtClaims is invariant 1: an accepted claim stays the accepted one, and every claim
// that central holds is accepted or a conflict, with its bytes.
func (f *fleet) lookAtClaims(db *sql.DB) {
	rows, err := db.Query("SELECT block_id, pack, ticket, round, claim FROM claims")
	f.must(err)
	defer rows.Close()
	now := map[ticketRound]string{}
	for rows.Next() {
		var id []byte
		var k ticketRound
		var claim string
		f.must(rows.Scan(&id, &k.pack, &k.number, &k.round, &claim))
		k.pack = f.blockPack(validate.BlockID(id), k.pack)
		now[k] = claim
	}
	f.must(rows.Err())
	for k, claim := range f.truth.accepted {
		if now[k] != claim {
			f.breach(1, "ticket %03d of pack %d, round %d: the accepted claim is no longer that", k.number, k.pack, k.round)
		}
	}
	f.truth.accepted = now
	var loose, changed int
	f.must(db.QueryRow(`SELECT count(*) FROM entries e WHERE e.kind IN ('claim', 'carried-claim') AND 1 <>
		(SELECT count(*) FROM claims c WHERE c.terminal = e.terminal AND c.epoch = e.epoch AND c.seq = e.seq) +
		(SELECT count(*) FROM conflicts k WHERE k.terminal = e.terminal AND k.epoch = e.epoch AND k.seq = e.seq)`).Scan(&loose))
	f.must(db.QueryRow(`SELECT count(*) FROM conflicts k LEFT JOIN entries e ON k.terminal = e.terminal AND k.epoch = e.epoch AND k.seq = e.seq
		WHERE e.line IS NULL OR e.line <> k.line`).Scan(&changed))
	if loose+changed > 0 {
		f.breach(1, "%d claims at central are neither accepted nor conflicts, or both; %d conflicts have not their entry's bytes", loose, changed)
	}
}

// lookAtEntries is invariant 3: what a shop was told central has, central has, and 4 at
// central: gapless, chained, unchanged.
func (f *fleet) lookAtEntries(db *sql.DB) {
	rows, err := db.Query("SELECT terminal, epoch, seq, line FROM entries ORDER BY terminal, epoch, seq")
	f.must(err)
	defer rows.Close()
	var at bodyKey
	prev, held := "", map[bodyKey]string{}
	for rows.Next() {
		var k bodyKey
		var line []byte
		f.must(rows.Scan(&k.shop, &k.epoch, &k.seq, &line))
		next := bodyKey{at.shop, at.epoch, at.seq + 1}
		if k.seq == 1 {
			next, prev = bodyKey{k.shop, k.epoch, 1}, strings.Repeat("0", 64)
		}
		if k != next || !bytes.Contains(line, []byte(prev)) {
			f.breach(4, "central: entry %d-%d of %s does not follow the one before", k.epoch, k.seq, k.shop)
		}
		at, prev = k, f.truth.body(f, k.shop, k.epoch, k.seq, line, f.staleAt(k.shop))
		held[k] = prev
	}
	f.must(rows.Err())
	for name, a := range f.truth.stored {
		p := a.Position
		if p.Seq > 0 && !f.truth.owed[name] && held[bodyKey{name, p.Epoch, p.Seq}] != p.Hash {
			f.breach(3, "central acknowledged entry %d-%d of %s and does not hold it", p.Epoch, p.Seq, name)
		}
	}
}

func (f *fleet) staleAt(name string) bool {
	return slices.ContainsFunc(f.shops, func(s *outlet) bool { return s.name == name && s.stale })
}

// lookAtMoney is invariant 12: for each terminal and day, what its journal paid is what
// central accepted, keeps as conflicts, or has not received.
func (f *fleet) lookAtMoney(db *sql.DB) {
	type day struct{ shop, date string }
	sum := func(query string) map[day]int64 {
		rows, err := db.Query(query)
		f.must(err)
		defer rows.Close()
		list := map[day]int64{}
		for rows.Next() {
			var d day
			var minor int64
			f.must(rows.Scan(&d.shop, &d.date, &minor))
			list[d] += minor
		}
		f.must(rows.Err())
		return list
	}
	judged := sum(`SELECT terminal, substr(paid, 1, 10), amount_minor FROM claims
		UNION ALL SELECT terminal, substr(json_extract(CAST(line AS TEXT), '$.time'), 1, 10), amount_minor FROM conflicts WHERE amount_minor IS NOT NULL`)
	for _, s := range f.shops {
		if s.restored {
			for d, minor := range judged {
				if d.shop == s.name && d.date != "" {
					judged[day{s.name, ""}] += minor
					delete(judged, d)
				}
			}
		}
		if s.on == nil || s.on.dead.Load() || s.stale {
			continue
		}
		acked := f.truth.heads[s.name]
		for epoch := int64(1); epoch <= s.on.book.Head().Epoch; epoch++ {
			f.must(s.on.book.Lines(f.ctx, epoch, 0, func(seq int64, line []byte) error {
				e, err := ledger.ParseEntry(line)
				if err != nil || !e.IsClaim() || epoch > acked.Epoch || epoch == acked.Epoch && seq > acked.Seq {
					return err // in transit
				}
				c, err := e.Claim()
				date := e.Time[:10]
				if s.restored { // its payments of before have come back under other days
					date = ""
				}
				judged[day{s.name, date}] -= c.AmountMinor
				return err
			}))
		}
		for d, left := range judged {
			if d.shop == s.name && left != 0 {
				f.breach(12, "%s on %s: central has %+d minor units against the journal", s.name, d.date, left)
			}
		}
	}
}

// account is the claims' history in porcupine's words: the first claim of a ticket wins,
// and every answer names it.
var account = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[ticketRound][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(deed).key
			k.round = 0
			by[k] = append(by[k], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		d, by := input.(deed), state.(string)
		switch {
		case d.freed:
			return by == d.shop, ""
		case d.paid:
			return by == "", d.shop
		}
		return by == d.by, by
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// linearize has porcupine look at the whole history of claims.
func (f *fleet) linearize() {
	t := &f.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	excused := map[ticketRound]bool{}
	for _, p := range t.order {
		if p.booked || p.stale || f.lost[p.key.pack] == p.shop {
			excused[ticketRound{p.key.pack, p.key.number, 0}] = true
		}
	}
	clients := map[string]int{}
	var list []porcupine.Operation
	for _, d := range t.deeds {
		if excused[ticketRound{d.key.pack, d.key.number, 0}] {
			continue
		}
		if _, known := clients[d.shop]; !known {
			clients[d.shop] = len(clients)
		}
		list = append(list, porcupine.Operation{ClientId: clients[d.shop], Input: d, Call: d.call.UnixNano(), Return: d.end.UnixNano()})
	}
	if porcupine.CheckOperationsTimeout(account, list, 20*time.Second) == porcupine.Illegal {
		f.breach(6, "porcupine: the history of claims is not one in which the first claim wins and every answer names it")
	}
}
