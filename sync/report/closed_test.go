package report

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/policy"
)

func day(text string) policy.Date {
	d, err := policy.ParseDate(text)
	if err != nil {
		panic(err) // a constant of a test
	}
	return d
}

// close1 closes a period as the command does.
func (s *store) close1(first, last string) (Closed, string, error) {
	s.t.Helper()
	var made Closed
	x, err := s.central.CloseSettlement(s.t.Context(), day(first), day(last), "anne", func(ctx context.Context, tx *sql.Tx, x central.Closing) (head, lines string, err error) {
		if made, err = Close(ctx, tx, x.Number, x.Previous, x.First, x.Last, x.Operator, x.Closed); err != nil {
			return "", "", err
		}
		head, lines = made.Texts()
		return head, lines, nil
	})
	return made, Archive(x.Note, x.Lines), err
}

func (s *store) pack(block byte, pack int64, owner, state, settled string) {
	id := id(block)
	s.exec("INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed, activated, settled) VALUES($1, $2, '00399', $3, $4, 1, '', $5, $6)", id[:], pack, state, owner, settled, settled)
}

// claimAt is an accepted claim that central received at a time.
func (s *store) claimAt(block byte, terminal, received string, amount int64) (pack int64) {
	s.claim(block, terminal, received, "EUR", amount)
	s.exec("UPDATE claims SET received = $1 WHERE pack = $2", received, seqs)
	return seqs
}

func lineOf(t *testing.T, c Closed, terminal string) ClosedLine {
	t.Helper()
	for _, l := range c.Lines() {
		if l.Terminal == terminal {
			return l
		}
	}
	t.Fatalf("no line of %s in %+v", terminal, c.Lines())
	return ClosedLine{}
}

// TestClosedSettlementNeverChangesAndLaterNewsIsACorrection: two periods on each store, a
// rounding that must not come back, a pack that proves stolen after its period was closed,
// and archives that prove themselves with the public key alone.
func TestClosedSettlementNeverChangesAndLaterNewsIsACorrection(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *store{"sqlite": newStore, "postgres": newPostgresStore} {
		t.Run(name, func(t *testing.T) { testClosedSettlement(t, open(t)) })
	}
}

func testClosedSettlement(t *testing.T, s *store) {
	s.block(1, 1, "bingo", "1", "EUR", 1, 0) // 50 tickets a pack, at 2 EUR
	s.block(3, 1, "bingo", "1", "EUR", 9, 1) // a demonstration
	s.add("shop-0001", "enrolled", at(0))
	s.add("shop-0002", "enrolled", at(0))
	s.exec("UPDATE terminals SET shop = 'tabac' WHERE name = 'shop-0002'")
	p := policy.Policy{Version: "1", ValidFrom: day("2026-01-01"), Currency: "EUR", ShopLimit: 30000, ClaimDays: 30, CommissionSale: 500, CommissionPaid: 101}
	s.exec("INSERT INTO policies(sha256, version, valid_from, valid_to, signed, operator, published) VALUES('x', '1', '2026-01-01', '', $1, 'anne', '')", p.Text()+"\n— k sig\n")
	s.pack(1, 2, "shop-0001", "settled", "2026-09-10T10:00:00.000Z")
	s.pack(1, 3, "shop-0001", "settled", "2026-09-11T10:00:00.000Z")
	s.pack(1, 4, "shop-0002", "settled", "2026-10-31T22:59:59.999Z") // the last moment of October in Paris
	s.pack(1, 5, "shop-0002", "settled", "2026-10-31T23:00:00.000Z") // the first of November
	s.pack(3, 2, "shop-0001", "settled", "2026-09-10T10:00:00.000Z")
	for range 3 {
		s.claimAt(1, "shop-0001", "2026-09-20T10:00:00.000Z", 250) // 101/10000 of it is 2.525
	}
	taken := s.claimAt(1, "shop-0001", "2026-10-05T10:00:00.000Z", 500)
	one, first, err := s.close1("2026-09-01", "2026-09-30")
	if err != nil {
		t.Fatal(err)
	}
	a := lineOf(t, one, "shop-0001")
	if a.Packs != 2 || a.Tickets != 100 || a.Sales != 20000 || a.Paid != 750 || a.Commission != 1000+8 || a.Correction != 0 || a.Due != 20000-750-1008 || a.ToDate != a.Due {
		t.Errorf("September: %+v", a)
	}
	if len(one.Lines()) != 1 {
		t.Errorf("%+v: who has neither sold nor paid has no line", one.Lines())
	}
	// What is known otherwise later: a pack was not sold but stolen, and a payment of
	// October was taken back in October.
	s.exec("UPDATE packs SET state = 'stolen', was = 'delivered' WHERE pack = 3")
	raw := id(1)
	s.exec(`INSERT INTO reversals(block_id, pack, ticket, round, terminal, reversal, claim, claim_epoch, claim_seq, epoch, seq, amount_minor, currency, reason, text, operator, manager, asked, received, state, decided)
		VALUES($1, $2, 1, 0, 'shop-0001', 'r', 'c', 1, 1, 1, 2, 500, 'EUR', '', '', '', '', '', '', $3, '2026-10-07T10:00:00.000Z')`, raw[:], taken, validate.ReversalAccepted)
	two, second, err := s.close1("2026-10-01", "2026-10-31")
	if err != nil {
		t.Fatal(err)
	}
	a, b := lineOf(t, two, "shop-0001"), lineOf(t, two, "shop-0002")
	if a.Sales != 0 || a.Paid != 500 || a.Reversed != 500 || a.Commission != 0 || a.Correction != -(10000-500) || a.Due != -9500 || a.ToDate != one.Lines()[0].ToDate-9500 {
		t.Errorf("October of shop-0001: %+v", a)
	}
	if b.Shop != "tabac" || b.Packs != 1 || b.Sales != 10000 || b.Commission != 500 || b.Due != 9500 {
		t.Errorf("October of shop-0002: %+v", b)
	}
	// The open report goes on where the closed ones ended, with nothing left to correct.
	r, err := Make(t.Context(), s.read, "settlement", Filter{}, now)
	r = must(t, r, err)
	if len(r.Rows) != 1 || cell(t, r, r.Rows[0], "shop").Text != "tabac" || cell(t, r, r.Rows[0], "due").Int != 9500 || cell(t, r, r.Rows[0], "correction").Int != 0 || r.Filter.From != (Day{2026, 11, 1}) {
		t.Errorf("November so far: %+v %+v", r.Filter, r.Rows)
	}
	if _, _, err := s.close1("2026-11-02", "2026-11-03"); !errors.Is(err, central.ErrRefused) {
		t.Errorf("a gap: %v", err)
	}
	testArchives(t, s.central.PublicKey(), first, second)
}

// testArchives proves two archives, and that nothing in them can be changed.
func testArchives(t *testing.T, key, first, second string) {
	one, signed, err := OpenArchive([]byte(first), key)
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := OpenArchive([]byte(second), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Follows(one, signed); err != nil {
		t.Error(err)
	}
	if err := one.Follows(two, signed); !errors.Is(err, ErrClosed) {
		t.Errorf("in the wrong order: %v", err)
	}
	if err := two.Follows(one, signed+"x"); !errors.Is(err, ErrClosed) {
		t.Errorf("another one before: %v", err)
	}
	if _, _, err := OpenArchive([]byte(second), "other+12345678+AWmIDMO27vq2x54BvmTdDZtLBb9kYqWs1IylVhVrQCT+"); err == nil {
		t.Error("proven by another key")
	}
	// Every byte counts: of the head for its signature, of the lines for their hash.
	for i := 0; i < len(second); i += 7 {
		changed := []byte(second)
		if changed[i] == '1' {
			changed[i] = '2'
		} else {
			changed[i] = '1'
		}
		if c, _, err := OpenArchive(changed, key); err == nil {
			t.Fatalf("byte %d changed, and it is proven: %+v", i, c)
		}
	}
	if _, _, err := OpenArchive([]byte(second[:len(second)-20]), key); !errors.Is(err, ErrClosed) {
		t.Errorf("cut: %v", err)
	}
}

// TestClosedLinesMustAddUp: a signature over figures that do not follow from each other
// proves nothing.
func TestClosedLinesMustAddUp(t *testing.T) {
	good := Closed{Number: 1, First: day("2026-09-01"), Last: day("2026-09-30"), Operator: "anne", At: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC),
		lines: []ClosedLine{{Terminal: "a", Shop: "a", Currency: "EUR", Sales: 1000, Paid: 300, Reversed: 100, Borne: 50, Commission: 60, Correction: -5, Due: 685, ToDate: 685}}}
	var err error
	if good.Totals, err = totalsOf(good.lines); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseClosed(good.Texts()); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Closed){
		"due":      func(c *Closed) { c.lines[0].Due++; c.Totals[0].Due++ },
		"total":    func(c *Closed) { c.Totals[0].Sales++ },
		"no total": func(c *Closed) { c.Totals = nil },
	} {
		c := good
		c.lines, c.Totals = good.Lines(), append([]ClosedLine{}, good.Totals...)
		edit(&c)
		if _, err := ParseClosed(c.Texts()); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}
