package central

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// TestSumsAreWhatTheClaimsComeTo plays any order of payments, payments of others' tickets,
// reversals asked for, accepted and refused, tickets paid again and conflicts settled, over
// days, on each database; after each step the kept sums are those of the claims. They go
// with a backup, and are made again where a backup has none.
func TestSumsAreWhatTheClaimsComeTo(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testSumsAreWhatTheClaimsComeTo(t, newWorldOf(t, s.database(t), 3600, []manifest.Tier{{Count: 2, Amount: 20000}, {Count: 1800, Amount: 2000}}))
		})
	}
}

func testSumsAreWhatTheClaimsComeTo(t *testing.T, w *world) {
	const most = 4
	won := w.winners(10, 69)
	runs, reversed, conflicts := 0, 0, 0
	var last *counted
	rapid.Check(t, func(rt *rapid.T) {
		if runs == most && !t.Failed() {
			return
		}
		m := &counted{T: t, w: w, conflicts: &conflicts, reversed: &reversed, before: w.count(t, "SELECT count(*) FROM claims")}
		for n := range 2 {
			d := newDesk(t, w, fmt.Sprintf("T-%d-%d", runs, n))
			first := uint32(10 + (4*runs+2*n)%56)
			w.give(t, d.name, first, first+1)
			m.desks = append(m.desks, d)
			for _, l := range won {
				if (l.code.Pack == first || l.code.Pack == first+1) && len(m.lots) < 8*(n+1) && l.tier == 2 {
					m.lots = append(m.lots, l)
				}
			}
		}
		if runs++; runs == 1 {
			m.each()
		}
		last = m
		rt.Repeat(map[string]func(*rapid.T){"pay": m.pay, "pay another's": m.payForeign, "ask back": m.askBack, "decide": m.decide, "pay again": m.payAgain, "settle": m.settle, "hours": m.hours, "": m.right})
	})
	t.Logf("%d runs, %d payments taken back, %d conflicts", runs, reversed, conflicts)
	if reversed == 0 || conflicts == 0 {
		t.Error("they prove nothing")
	}
	last.right(nil)
	sumsGoWithABackup(t, w)
}

// sumsGoWithABackup into a folder of its own; and one of a program that kept none.
func sumsGoWithABackup(t *testing.T, w *world) {
	claims := int64(w.count(t, "SELECT count(*) FROM claims"))
	for _, old := range []bool{false, true} {
		if old {
			for _, table := range sumTables() {
				w.exec(t, "DELETE FROM "+table.name)
			}
			w.exec(t, "DELETE FROM counters WHERE name = 'sums'")
			if a, err := w.AuditSums(t.Context()); err != nil || a.Wrong == 0 {
				t.Fatalf("sums that are not there are right: %+v %v", a, err)
			}
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if _, err := w.Backup(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
		opt := Options{Dir: filepath.Join(t.TempDir(), "again"), Now: w.clock.now}
		if _, err := Restore(t.Context(), backup, opt, false); err != nil {
			t.Fatal(err)
		}
		again := openCentral(t, opt)
		if a, err := again.AuditSums(t.Context()); err != nil || a.Wrong != 0 || a.Claims != claims || a.Sums < 5 {
			t.Fatalf("restored, kept no sums %v: %+v %v", old, a, err)
		}
	}
}

// counted is the machine: payments by the number of their ticket.
type counted struct {
	*testing.T
	w                   *world
	desks               []*desk
	lots                []lot // the first eight are of the first desk's packs
	paid                [16]bool
	round               [16]int
	asked               [16]*validate.EntryNumber
	claims, id, before  int
	reversed, conflicts *int
	open                []validate.EntryNumber // conflicts of the second desk
}

func (m *counted) fresh() int { m.id++; return m.id*1000 + len(m.w.lots) + m.before*100_000 }

func (m *counted) draw(rt *rapid.T, of func(i int) bool) int {
	var list []int
	for i := range m.lots {
		if of(i) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		rt.Skip("none")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(rt, "ticket")]
}

func (m *counted) desk(i int) *desk { return m.desks[i/8] }

func (m *counted) pay(rt *rapid.T) {
	i := m.draw(rt, func(i int) bool { return !m.paid[i] && m.round[i] == 0 })
	m.credit(i)
}

func (m *counted) credit(i int) {
	d := m.desk(i)
	if _, err := d.record(m.T, m.lots[i], m.round[i], m.fresh()); err != nil {
		m.Fatal(err)
	}
	if x := d.sync(m.T); len(x) != 0 {
		m.Fatalf("%+v", x)
	}
	m.paid[i] = true
	m.claims++
}

func (m *counted) payForeign(rt *rapid.T) {
	if err := m.foreign(m.draw(rt, func(i int) bool { return i < 8 && m.paid[i] && m.round[i] == 0 })); err != nil {
		rt.Skip(err) // this desk has paid it before
	}
}

func (m *counted) foreign(i int) error {
	d := m.desks[1]
	r, err := d.record(m.T, m.lots[i], 0, m.fresh())
	if errors.Is(err, ledger.ErrPaid) {
		return err
	}
	if err != nil {
		m.Fatal(err)
	}
	if x := d.sync(m.T); len(x) != 1 {
		m.Fatalf("%+v", x)
	}
	*m.conflicts++
	m.open = append(m.open, r.Number)
	return nil
}

// each does what must happen at least once, whatever is drawn afterwards.
func (m *counted) each() {
	m.credit(0)
	m.right(nil)
	if err := m.foreign(0); err != nil {
		m.Fatal(err)
	}
	m.right(nil)
	m.back(0)
	if err := m.decided(0, true); err != nil {
		m.Fatal(err)
	}
	m.right(nil)
	m.credit(0) // in its second round
	m.right(nil)
}

func (m *counted) askBack(rt *rapid.T) {
	m.back(m.draw(rt, func(i int) bool { return m.paid[i] && m.asked[i] == nil && m.round[i] < 2 }))
}

func (m *counted) back(i int) {
	p, err := m.desk(i).book.Paid(m.Context(), m.desk(i).key(m.lots[i]))
	if err != nil || p == nil {
		m.Fatal(err)
	}
	if _, err := m.desk(i).book.RequestReversal(m.Context(), validate.Reversal{ID: fmt.Sprintf("%032x", m.fresh()), Number: p.Number, Reason: validate.PlayerLeft, Operator: "marie", Manager: "paul"}); err != nil {
		m.Fatal(err)
	}
	m.desk(i).sync(m.T)
	m.asked[i] = &p.Number
}

func (m *counted) decide(rt *rapid.T) {
	i := m.draw(rt, func(i int) bool { return m.asked[i] != nil && m.paid[i] })
	accepted := rapid.IntRange(0, 3).Draw(rt, "accepted") > 0
	if err := m.decided(i, accepted); err != nil {
		rt.Skip(err) // central had said no to this one, and says it once
	}
}

func (m *counted) decided(i int, accepted bool) error {
	_, err := m.w.Decide(m.Context(), m.desk(i).name, *m.asked[i], accepted, "seen")
	if errors.Is(err, ErrRefused) {
		return err
	}
	if err != nil {
		m.Fatal(err)
	}
	if accepted {
		m.paid[i], m.asked[i] = false, nil
		m.round[i]++
		*m.reversed++
	}
	m.desk(i).sync(m.T)
	return nil
}

func (m *counted) payAgain(rt *rapid.T) {
	m.credit(m.draw(rt, func(i int) bool { return !m.paid[i] && m.round[i] > 0 }))
}

func (m *counted) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("none")
	}
	n := m.open[0]
	m.open = m.open[1:]
	for _, act := range []ConflictAct{Inquire, SettleConflict, Reopen} {
		liable := map[ConflictAct]string{SettleConflict: "lottery"}[act]
		if _, err := m.w.ActOnConflict(m.Context(), m.desks[1].name, n, act, liable, "because", "anne"); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *counted) hours(rt *rapid.T) {
	m.w.clock.advance(time.Duration(rapid.IntRange(1, 20).Draw(rt, "hours")) * time.Hour)
}

// right: what is kept is what the claims come to, and those are as many as were credited.
func (m *counted) right(*rapid.T) {
	a, err := m.w.AuditSums(m.Context())
	if err != nil || a.Wrong != 0 || a.Claims != int64(m.before+m.claims) {
		m.Fatalf("%d claims, want %d; %d sums are wrong: %+v %v", a.Claims, m.before+m.claims, a.Wrong, a.Differences, err)
	}
}
