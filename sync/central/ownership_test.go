package central

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
)

// TestAnyMoveOfPacksLeavesOnePayer plays any order of what central does to packs and what
// three terminals do with their tickets, on real ledgers: packs are moved with their owner's
// release and by force, written off, replaced, stolen, found, settled; terminals are silent
// for days, lose answers, start again, give packs up for the night and take them back. After
// each step one terminal at most may pay a ticket, what one has paid no other may pay, and
// owner epochs have risen at central alone, by its own acts. In the end each payment is
// credited, or kept as a conflict where its pack was recalled. Where somebody was written off, he is excused for what he might have paid.
func TestAnyMoveOfPacksLeavesOnePayer(t *testing.T) {
	const packs = 600
	most := 40
	if os.Getenv("GRATTOIR_SOAK") != "" {
		most = packs / 2 // with -rapid.checks
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // no power is cut here
	}
	w := newWorldOf(t, "", packs*60, []manifest.Tier{{Count: 2, Amount: 20000}, {Count: packs * 8, Amount: 2000}})
	w.patience = time.Millisecond
	won := map[uint32][]lot{}
	for _, l := range w.lots {
		if l.tier == 2 {
			won[l.code.Pack] = append(won[l.code.Pack], l)
		}
	}
	next, runs, dir := w.block.FirstPack, 0, t.TempDir()
	paid, moved := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs >= most && !t.Failed() {
			return
		}
		if next+1 > w.block.LastPack {
			next = w.block.FirstPack // shrinking goes on with packs that were used; a failure has been found
		}
		m := &ownership{T: t, w: w, run: runs, dir: filepath.Join(dir, fmt.Sprint(runs)), lost: map[uint32]*till{}, payer: map[validate.TicketKey]*till{}, epochs: map[uint32]int64{}, recalled: map[uint32]bool{}}
		for n := range 3 {
			m.open(fmt.Sprintf("T-%d-%d", runs, n))
		}
		for pack := next; pack < next+2; pack++ {
			m.packs, m.lots = append(m.packs, pack), append(m.lots, won[pack][0], won[pack][1])
		}
		runs, next = runs+1, next+2
		w.give(t, m.tills[0].name, m.packs[0], m.packs[0])
		w.give(t, m.tills[1].name, m.packs[1], m.packs[1])
		m.everybodySpeaks()
		rt.Repeat(map[string]func(*rapid.T){
			"pay": m.pay, "ask": m.ask, "ask for one": m.askWhole, "pay what central allowed": m.payGranted, "give back": m.giveBack, "exchange": m.exchange, "exchange all": m.speak,
			"silence": m.silence, "release": m.release, "take": m.take, "move": m.move, "write off": m.writeOff, "live": m.live, "restart or days": m.pass,
			"": m.onePayer,
		})
		m.everybodySpeaks()
		m.credited(rt)
		paid, moved = paid+len(m.payer), moved+m.moves
		for _, s := range m.tills {
			if err := s.l.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
	t.Logf("%d runs: %d payments, %d moves", runs, paid, moved)
	if paid == 0 || moved == 0 { // how many there are is drawn
		t.Errorf("%d payments and %d moves prove nothing", paid, moved)
	}
}

// ownership is the small model beside central and its terminals.
type ownership struct {
	*testing.T
	w        *world
	dir      string
	tills    []*till
	packs    []uint32
	lots     []lot
	lost     map[uint32]*till             // whose payments of a pack were written off
	payer    map[validate.TicketKey]*till // who has paid a ticket
	recalled map[uint32]bool              // packs that may have been stolen or sent back
	epochs   map[uint32]int64             // owner epochs at central, after the last step
	raises   bool                         // central was asked to raise one
	moves    int
	run      int
	claims   int
}

// till is a terminal: a real ledger, and the smallest link there can be.
type till struct {
	*device
	l      *ledger.Ledger
	path   string
	silent bool
}

// straight brings requests to central's handler as a connection that was verified would.
type straight struct {
	w    *world
	cert *x509.Certificate
}

func (s straight) RoundTrip(q *http.Request) (*http.Response, error) {
	q.TLS = &tls.ConnectionState{}
	if s.cert != nil {
		q.TLS.PeerCertificates = []*x509.Certificate{s.cert}
		q.TLS.VerifiedChains = [][]*x509.Certificate{q.TLS.PeerCertificates}
	}
	answer := httptest.NewRecorder()
	s.w.API().ServeHTTP(answer, q)
	return answer.Result(), nil
}

// open enrols a terminal and makes its ledger.
func (m *ownership) open(name string) {
	m.Helper()
	code, err := m.w.AddTerminal(m.Context(), name)
	m.must(err)
	s := &till{device: &device{w: m.w, name: name, key: newKey(m), epoch: 1}, path: filepath.Join(m.dir, name)}
	ask := &http.Client{Transport: straight{w: m.w}}
	if e := post(m, ask, wire.PathEnrol, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(m, s.key)}, &s.answer); e != nil {
		m.Fatal(e)
	}
	block, _ := pem.Decode([]byte(s.answer.Certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	m.must(err)
	s.client = &http.Client{Transport: straight{m.w, cert}}
	s.claimKey, err = ledger.ParseClaimKey(s.answer.ClaimKey)
	m.must(err)
	m.tills = append(m.tills, s)
	m.start(s)
}

func (m *ownership) start(s *till) {
	m.Helper()
	m.must(os.MkdirAll(s.path, 0o700))
	var err error
	s.l, err = ledger.Open(m.Context(), ledger.Options{Path: filepath.Join(s.path, "ledger.db"), Terminal: s.name, ClaimKey: s.claimKey, Sign: s.sign,
		Moment: func() ledger.Moment {
			return ledger.Moment{Boot: "b", Device: m.w.clock.now(), Trusted: m.w.clock.now()}
		}})
	m.must(err)
}

func (s *till) sign(text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	return ecdsa.SignASN1(rand.Reader, s.key, sum[:])
}

func (m *ownership) must(err error) {
	if err != nil {
		m.Helper()
		m.Fatal(err)
	}
}

func key(w *world, l lot) validate.TicketKey {
	return validate.TicketKey{Block: w.block.ID, Pack: l.code.Pack, Number: l.code.Number}
}

// owns tells whether a terminal may pay a ticket by itself, as its ledger has it, and by
// which owner epoch: what cmd/terminald's link says to the counter.
func (m *ownership) owns(s *till, l lot) (may bool, epoch int64) {
	p, known, err := s.l.Pack(m.Context(), l.code.Game, l.code.Pack)
	m.must(err)
	gone, err := s.l.Released(m.Context(), l.code.Game, l.code.Pack, p.Epoch)
	m.must(err)
	held, err := s.l.Held(m.Context(), key(m.w, l))
	m.must(err)
	elsewhere, err := s.l.PaidElsewhere(m.Context(), key(m.w, l))
	m.must(err)
	return known && p.Owner == s.name && (p.State == validate.PackActive || p.State == validate.PackSettled) && !gone && !held && elsewhere == nil, p.Epoch
}

// allowed is the claim that central allowed a terminal to make and that is not made yet,
// nil for none.
func (m *ownership) allowed(s *till, l lot) *validate.Intent {
	i, err := s.l.Intent(m.Context(), key(m.w, l))
	m.must(err)
	if i == nil || i.State != validate.IntentApproved {
		return nil
	}
	return i
}

// onePayer is checked after each step.
func (m *ownership) onePayer(rt *rapid.T) {
	for _, l := range m.lots {
		var can []string
		for _, s := range m.tills {
			owns, _ := m.owns(s, l)
			if (owns || m.allowed(s, l) != nil) && m.payer[key(m.w, l)] != s && m.lost[l.code.Pack] != s {
				can = append(can, s.name)
			}
		}
		by := m.payer[key(m.w, l)]
		if by != nil && m.lost[l.code.Pack] == by {
			by = nil
		}
		if len(can) > 1 || by != nil && len(can) > 0 {
			rt.Fatalf("ticket %d of pack %d may be paid by %v, and is paid: %t", l.code.Number, l.code.Pack, can, by != nil)
		}
	}
	m.centralAlone(rt)
}

// centralAlone: owner epochs rise by an act of central's alone, and no ledger knows of one
// that central does not.
func (m *ownership) centralAlone(rt *rapid.T) {
	for _, pack := range m.packs {
		var epoch int64
		m.must(m.w.Reader().QueryRow("SELECT epoch FROM packs WHERE block_id = $1 AND pack = $2", m.w.block.ID[:], pack).Scan(&epoch))
		if was, known := m.epochs[pack]; known && (epoch < was || epoch > was && !m.raises) {
			rt.Fatalf("the owner epoch of pack %d went from %d to %d", pack, was, epoch)
		}
		m.epochs[pack] = epoch
		for _, s := range m.tills {
			if p, known, err := s.l.Pack(m.Context(), "00399", pack); err != nil || known && p.Epoch > epoch {
				rt.Fatalf("%s holds owner epoch %d of pack %d, central %d: %v", s.name, p.Epoch, pack, epoch, err)
			}
		}
	}
	m.raises = false
}

func (m *ownership) draw(rt *rapid.T) (*till, lot) {
	return m.tills[rapid.IntRange(0, len(m.tills)-1).Draw(rt, "terminal")], m.ticket(rt)
}

// ticket draws a ticket by its place: a log of draws must show no code.
func (m *ownership) ticket(rt *rapid.T) lot {
	return m.lots[rapid.IntRange(0, len(m.lots)-1).Draw(rt, "ticket")]
}

func (m *ownership) claimOf(l lot, right validate.Right, epoch int64) validate.Claim {
	m.claims++
	return validate.Claim{ID: fmt.Sprintf("%016x%016x", m.run, m.claims), Ticket: key(m.w, l), Secret: l.code, Tier: l.tier, Amount: money.Amount(tiers[l.tier-1].Amount), Currency: "EUR",
		Right: right, OwnerEpoch: epoch, Operator: "marie", Entered: validate.Scanned, FirstCheck: m.w.clock.now(), Slip: validate.SlipFacts{GameCode: l.code.Game, Pack: l.code.PackText(), Ticket: l.code.NumberText()}}
}

// drawWho draws a ticket and one of the terminals of which something holds.
func (m *ownership) drawWho(rt *rapid.T, holds func(*till, lot) bool) (*till, lot) {
	l := m.ticket(rt)
	who := slices.DeleteFunc(slices.Clone(m.tills), func(s *till) bool { return !holds(s, l) })
	if len(who) == 0 {
		rt.Skip("nobody")
	}
	return who[rapid.IntRange(0, len(who)-1).Draw(rt, "terminal")], l
}

// pay pays by the owner's right where there is one, with no network.
func (m *ownership) pay(rt *rapid.T) {
	s, l := m.drawWho(rt, func(s *till, l lot) bool { owns, _ := m.owns(s, l); return owns })
	_, epoch := m.owns(s, l)
	_, err := s.l.Record(m.Context(), m.claimOf(l, validate.RightOwner, epoch))
	m.recorded(rt, s, l, err)
}

// recorded notes a payment: nobody else has made one.
func (m *ownership) recorded(rt *rapid.T, s *till, l lot, err error) {
	if errors.Is(err, ledger.ErrPaid) || errors.Is(err, ledger.ErrRight) {
		return // by itself, before; or central is asked about it
	}
	m.must(err)
	k := key(m.w, l)
	if by := m.payer[k]; by != nil && m.lost[l.code.Pack] != by && m.lost[l.code.Pack] != s {
		rt.Fatalf("ticket %d of pack %d is paid by %s and by %s", l.code.Number, l.code.Pack, by.name, s.name)
	}
	m.payer[k] = s
}

func (m *ownership) ask(rt *rapid.T) {
	s, l := m.drawWho(rt, func(s *till, l lot) bool { owns, _ := m.owns(s, l); return !owns })
	if _, err := s.l.Intend(m.Context(), m.claimOf(l, validate.RightGrant, 0)); !errors.Is(err, ledger.ErrPaid) {
		m.must(err)
	}
}

// askWhole asks, and everybody who is not silent answers.
func (m *ownership) askWhole(rt *rapid.T) {
	m.ask(rt)
	m.speak(rt)
}

func (m *ownership) payGranted(rt *rapid.T) {
	s, l := m.drawWho(rt, func(s *till, l lot) bool { return m.allowed(s, l) != nil })
	i := m.allowed(s, l)
	c := m.claimOf(l, validate.RightGrant, i.OwnerEpoch)
	c.ID = i.Claim
	_, err := s.l.Record(m.Context(), c)
	m.recorded(rt, s, l, err)
}

func (m *ownership) giveBack(rt *rapid.T) {
	s, l := m.draw(rt)
	if i, err := s.l.Intent(m.Context(), key(m.w, l)); err == nil && i != nil {
		m.must(s.l.GiveBack(m.Context(), i.Claim))
	}
}

func (m *ownership) silence(rt *rapid.T) {
	s, _ := m.draw(rt)
	s.silent = !s.silent
}

func (m *ownership) release(rt *rapid.T) {
	s, _ := m.draw(rt)
	_, err := s.l.Release(m.Context(), "marie", ledger.ReleaseClosing)
	m.must(err)
}

func (m *ownership) take(rt *rapid.T) {
	s, _ := m.draw(rt)
	m.must(s.l.TakeBack(m.Context()))
}

func (m *ownership) restart(rt *rapid.T) {
	s, _ := m.draw(rt)
	m.must(s.l.Close())
	m.start(s)
}

// pass lets a terminal start again, or hours and days pass, which moves no right: neither a
// terminal's nor, when somebody asks, central's.
func (m *ownership) pass(rt *rapid.T) {
	if hours := rapid.IntRange(0, 40).Draw(rt, "hours"); hours > 3 {
		m.w.clock.advance(time.Duration(hours) * time.Hour)
		return
	}
	m.restart(rt)
}

func (m *ownership) move(rt *rapid.T) {
	to, _ := m.draw(rt)
	if rapid.IntRange(0, 5).Draw(rt, "all") == 5 {
		m.replace(rt, to)
		return
	}
	pack, force := rapid.SampledFrom(m.packs).Draw(rt, "pack"), rapid.Bool().Draw(rt, "by force")
	_, err := m.w.MovePacks(m.Context(), "399", pack, pack, to.name, force)
	m.acted(err)
}

// acted is after an act of central's; one that is not legal now has changed nothing.
func (m *ownership) acted(err error) {
	if errors.Is(err, ErrRefused) {
		return
	}
	m.must(err)
	m.raises, m.moves = true, m.moves+1
}

func (m *ownership) replace(rt *rapid.T, by *till) {
	old, _ := m.draw(rt)
	m.w.clock.advance(time.Millisecond) // nobody does it twice in one
	_, err := m.w.Replace(m.Context(), old.name, by.name)
	m.acted(err)
}

// writeOff gives up a pack whose owner is silent: what he may have paid is a booked risk.
func (m *ownership) writeOff(rt *rapid.T) {
	pack := rapid.SampledFrom(m.packs).Draw(rt, "pack")
	var holder string
	err := m.w.Reader().QueryRow("SELECT holder FROM pack_rights WHERE block_id = $1 AND pack = $2 AND kind = $3", m.w.block.ID[:], pack, rightForced).Scan(&holder)
	if err != nil || m.lost[pack] != nil {
		rt.Skip("nobody's to write off")
	}
	if _, err := m.w.WriteOff(m.Context(), "399", pack, pack, "it burnt down"); err != nil {
		m.acted(err)
		return
	}
	m.raises = true
	m.lost[pack] = m.tills[slices.IndexFunc(m.tills, func(s *till) bool { return s.name == holder })]
}

// live is one step of a pack's life, whichever is legal.
func (m *ownership) live(rt *rapid.T) {
	pack := rapid.SampledFrom(m.packs).Draw(rt, "pack")
	var err error
	m.recalled[pack] = true
	switch rapid.IntRange(0, 3).Draw(rt, "step") {
	case 0:
		_, err = m.w.ReportStolen(m.Context(), "399", pack, pack)
	case 1:
		_, err = m.w.Settle(m.Context(), "399", pack, pack, "anne")
	case 2:
		_, err = m.w.Return(m.Context(), "399", pack, pack)
	default:
		_, err = m.w.RecoverPacks(m.Context(), "399", pack, pack)
	}
	if !errors.Is(err, ErrRefused) {
		m.must(err)
	}
}

// exchange has one terminal and central say something to each other; the answer may be lost.
func (m *ownership) exchange(rt *rapid.T) {
	s, _ := m.draw(rt)
	lane := rapid.IntRange(0, len(lanesOf)-1).Draw(rt, "lane")
	heard := rapid.IntRange(0, 4).Draw(rt, "heard") > 0
	if s.silent {
		rt.Skip("silent")
	}
	m.raises = true // a release that arrives lets a pack pass on, and so does what is taken back
	m.must(lanesOf[lane](s, m, heard))
}

// speak has everybody who is not silent say and hear what there is.
func (m *ownership) speak(*rapid.T) {
	m.raises = true
	for _, s := range m.tills {
		for _, lane := range lanesOf {
			if !s.silent {
				m.must(lane(s, m, true))
			}
		}
	}
}

// everybodySpeaks until nobody has anything to say.
func (m *ownership) everybodySpeaks() {
	for range 6 {
		for _, s := range m.tills {
			s.silent = false
		}
		m.speak(nil)
	}
}

// credited: in the end central has accepted each payment, and as its payer's.
func (m *ownership) credited(rt *rapid.T) {
	m.onePayer(rt)
	for k, s := range m.payer {
		var by string
		err := m.w.Reader().QueryRow("SELECT terminal FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = 0", k.Block[:], k.Pack, k.Number).Scan(&by)
		if errors.Is(err, sql.ErrNoRows) && m.recalled[k.Pack] { // it may have paid before it heard
			err = m.w.Reader().QueryRow("SELECT terminal FROM conflicts WHERE block_id = $1 AND pack = $2 AND ticket = $3", k.Block[:], k.Pack, k.Number).Scan(&by)
		}
		if (err != nil || by != s.name) && m.lost[k.Pack] == nil {
			rt.Fatalf("ticket %d of pack %d was paid by %s, and at central by %q: %v", k.Number, k.Pack, s.name, by, err)
		}
	}
}

// lanesOf are a link's, each as it does one exchange.
var lanesOf = []func(s *till, m *ownership, heard bool) error{(*till).sendJournal, (*till).hearFeed, (*till).tellHolds, (*till).askClaims, (*till).takeReleased}

func (s *till) sendJournal(m *ownership, heard bool) error {
	from, lines, to, err := s.l.Pending(m.Context(), wire.MaxEntries)
	if err != nil || len(lines) == 0 {
		return err
	}
	u := wire.Upload{Protocol: 1, Epoch: to.Epoch, From: from, Lines: lines, To: to}
	signature, err := s.sign([]byte(wire.HeadText(s.name, to)))
	u.Signature = base64.StdEncoding.EncodeToString(signature)
	var a wire.UploadAnswer
	if e := post(m, s.client, wire.PathJournal, u, &a); e != nil || err != nil || !heard {
		return errors.Join(err, asError(e))
	}
	v, err := note.NewVerifier(s.answer.CentralKey)
	if err != nil {
		return err
	}
	n, err := note.Open([]byte(a.Acked), note.VerifierList(v))
	if err != nil {
		return err
	}
	ack, err := wire.ParseAck(n.Text)
	if err != nil {
		return err
	}
	ack.Note = a.Acked
	return s.l.Ack(m.Context(), ack)
}

func (s *till) hearFeed(m *ownership, heard bool) error {
	cursor, err := s.l.FeedCursor(m.Context())
	if err != nil {
		return err
	}
	var f wire.Feed
	if e := get(m, s.client, fmt.Sprintf("%s?after=%d", wire.PathFeed, cursor), &f); e != nil || !heard || len(f.Items) == 0 {
		return asError(e)
	}
	return s.l.ApplyFeed(m.Context(), f.Items, f.Items[len(f.Items)-1].Seq)
}

func (s *till) tellHolds(m *ownership, heard bool) error {
	list, head, err := s.l.HoldsWaiting(m.Context(), wire.MaxHolds)
	if err != nil || len(list) == 0 {
		return err
	}
	signature, err := s.sign([]byte(wire.HeadText(s.name, head)))
	u := wire.HoldUpload{Protocol: 1, Head: head, Signature: base64.StdEncoding.EncodeToString(signature), Holds: list}
	var a wire.HoldAnswer
	if e := post(m, s.client, wire.PathHolds, u, &a); e != nil || err != nil || !heard {
		return errors.Join(err, asError(e))
	}
	return s.l.HoldsStored(m.Context(), a.Stored)
}

func (s *till) askClaims(m *ownership, heard bool) error {
	list, err := s.l.OpenClaims(m.Context())
	for _, q := range list {
		var a wire.ClaimAnswer
		if e := post(m, s.client, wire.PathClaim, q, &a); e != nil {
			return e
		}
		if heard {
			err = errors.Join(err, s.l.ClaimAnswered(m.Context(), a))
		}
	}
	return err
}

func (s *till) takeReleased(m *ownership, _ bool) error {
	wanted, known, err := s.l.Wanted(m.Context())
	if err != nil || !wanted || !known {
		return err
	}
	var a wire.TakeAnswer
	return asError(post(m, s.client, wire.PathTake, wire.TakeRequest{Protocol: 1}, &a))
}

// asError is nil for no error, which a nil pointer in an interface is not.
func asError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	return e
}
