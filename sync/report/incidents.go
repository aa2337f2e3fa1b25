package report

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

func aboutConflicts() About {
	return About{Name: "conflicts", Title: Text{"Conflits", "Conflicts"}, Filters: []string{"terminal", "shop", "region", "game", "block", "from", "to"},
		What: Text{"Chaque écriture reçue et non créditée, le paiement accepté du même ticket s'il y en a un, et où en est l'enquête. Les jours sont ceux de la réception.",
			"Each entry that was stored and not credited, the accepted claim of the same ticket if there is one, and how far the inquiry is. Days are those of receipt."},
		columns: func(Filter) []Column {
			list := []Column{{Key: "received", Kind: KindTime, Title: Text{"reçu", "received"}}}
			list = append(append(list, placeColumns()...), Column{Key: "number", Kind: KindText, Title: Text{"écriture", "entry"}}, Column{Key: "kind", Kind: KindText, Title: Text{"motif", "kind"}})
			list = append(list, blockColumns()...)
			return append(list,
				Column{Key: "pack", Kind: KindText, Title: Text{"livret", "pack"}},
				Column{Key: "ticket", Kind: KindText, Title: Text{"ticket", "ticket"}},
				Column{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
				Column{Key: "amount", Kind: KindMoney, Title: Text{"montant (déclaré)", "amount (as claimed)"}},
				Column{Key: "entered_at", Kind: KindTime, Title: Text{"horloge du terminal", "terminal's clock"}},
				Column{Key: "accepted_terminal", Kind: KindText, Title: Text{"payé par", "paid by"}},
				Column{Key: "accepted_number", Kind: KindText, Title: Text{"écriture acceptée", "accepted entry"}},
				Column{Key: "state", Kind: KindText, Title: Text{"état", "state"}},
				Column{Key: "liable", Kind: KindText, Title: Text{"à la charge de", "borne by"}},
				Column{Key: "note", Kind: KindText, Title: Text{"note", "note"}})
		}, read: (*Report).readConflictRows}
}

// readConflictRows reads the newest conflicts first.
func (r *Report) readConflictRows(ctx context.Context, tx *sql.Tx) error {
	blocks, err := readBlocks(ctx, tx)
	if err != nil {
		return err
	}
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return err
	}
	var c conditions
	c.ofTerminals(r.Filter, "c.terminal")
	c.ofBlocks(r.Filter, "c.block_id")
	c.ofDays(r.Filter, "c.received")
	err = each(ctx, tx, `SELECT c.received, c.terminal, c.epoch, c.seq, c.kind, c.block_id, c.pack, c.ticket, c.amount_minor, c.currency, c.line,
			coalesce(k.terminal, ''), coalesce(k.epoch, 0), coalesce(k.seq, 0), coalesce(a.state, 'open'), coalesce(a.liable, ''), coalesce(a.note, '')
		FROM conflicts c LEFT JOIN claims k ON k.block_id = c.block_id AND k.pack = c.pack AND k.ticket = c.ticket AND k.round = c.round
		LEFT JOIN conflict_acts a ON a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq
			AND a.number = (SELECT max(o.number) FROM conflict_acts o WHERE o.terminal = c.terminal AND o.epoch = c.epoch AND o.seq = c.seq)`+
		c.where()+" ORDER BY c.received DESC, c.terminal, c.epoch, c.seq", c.args, func(rows *sql.Rows) error {
		var received, terminal, kind, currency, by, state, liable, note string
		var n, accepted validate.EntryNumber
		var raw, line []byte
		var pack, ticket, amount sql.NullInt64
		if err := rows.Scan(&received, &terminal, &n.Epoch, &n.Seq, &kind, &raw, &pack, &ticket, &amount, &currency, &line, &by, &accepted.Epoch, &accepted.Seq, &state, &liable, &note); err != nil {
			return err
		}
		var id validate.BlockID
		if raw != nil {
			var err error
			if id, err = blockID(raw); err != nil {
				return err
			}
		}
		currency = cmp.Or(currency, blocks[id].currency)
		row := append([]Value{told(received)}, places[terminal].cells(terminal)...)
		row = append(append(row, textValue(n.String()), textValue(kind)), blockOf(blocks, id)...)
		packed, number, claimed, acceptedNumber := unknown(KindText), unknown(KindText), Value{Kind: KindMoney, Currency: currency}, unknown(KindText)
		if pack.Valid {
			packed, number = packText(pack.Int64), ticketText(ticket.Int64)
		}
		if amount.Valid && amount.Int64 >= 0 && amount.Int64 <= maxAmount && currency != "" {
			claimed = moneyValue(amount.Int64, currency)
		}
		if by != "" {
			acceptedNumber = textValue(accepted.String())
		}
		return r.add(append(row, packed, number, knownText(currency), claimed, told(entryTime(line)), knownText(by), acceptedNumber, textValue(state), knownText(liable), knownText(note))...)
	})
	if err != nil {
		return fmt.Errorf("conflicts: %w", err)
	}
	r.addTotals("amount")
	return nil
}

// maxAmount is the most that a claim can be believed to be about.
const maxAmount = 1 << 53

// Refusals are what counters were told, each answer counted by the terminal that gave it,
// and what central answered to claims that it was asked about.
func aboutRefusals() About {
	return About{Name: "refusals", Title: Text{"Réponses et refus", "Answers and refusals"}, Filters: []string{"terminal", "shop", "region", "from", "to"}, By: []string{"day", "shop", "terminal", "reason"}, many: true,
		What: Text{"Combien de fois chaque terminal a donné chaque réponse, codes lus ou tapés, comme il le dit ; et ce que le centre a refusé.",
			"How often each terminal gave each answer, to codes scanned or typed, as it tells; and what central denied."},
		columns: func(f Filter) []Column {
			f = f.refusalsBy()
			list := []Column{{Key: "said_by", Kind: KindText, Title: Text{"dit par", "said by"}}}
			if f.by("day") {
				list = append(list, Column{Key: "day", Kind: KindDay, Title: Text{"jour", "day"}})
			}
			if f.by("shop") || f.by("terminal") {
				list = append(list, placeColumns()[0])
			}
			if f.by("terminal") {
				list = append(list, placeColumns()[2])
			}
			if f.by("reason") {
				list = append(list, Column{Key: "outcome", Kind: KindText, Title: Text{"issue", "outcome"}}, Column{Key: "reason", Kind: KindText, Title: Text{"motif", "reason"}})
			}
			return append(list,
				Column{Key: "scanned", Kind: KindInt, Title: Text{"codes lus", "scanned"}},
				Column{Key: "typed", Kind: KindInt, Title: Text{"codes tapés", "typed"}},
				Column{Key: "all", Kind: KindInt, Title: Text{"en tout", "in all"}})
		}, read: (*Report).readRefusals}
}

func (f Filter) refusalsBy() Filter {
	f.By = cmp.Or(f.By, "terminal,reason")
	return f
}

type refusalKey struct{ saidBy, day, shop, terminal, outcome, reason string }

type refusalCount struct{ scanned, typed int64 }

// readRefusals takes what terminals told from the database in the order of the rows, and
// what central denied, which is little, after it.
func (r *Report) readRefusals(ctx context.Context, tx *sql.Tx) error {
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return err
	}
	f := r.Filter.refusalsBy()
	counts := map[refusalKey]refusalCount{}
	if err := r.readDenied(ctx, tx, func(k refusalKey, n int64) {
		k = f.refusal(k, places)
		c := counts[k]
		counts[k] = refusalCount{c.scanned + n, c.typed}
	}); err != nil {
		return err
	}
	if r.page > 0 { // the totals first: of the rows no more are read than are shown
		for k, c := range counts {
			r.tally(f.refusalRow(k, c))
		}
		err := r.readLooks(ctx, tx, Filter{By: "reason"}, nil, func(k refusalKey, c refusalCount) error {
			r.tally(f.refusalRow(k, c))
			return nil
		})
		if err != nil {
			return err
		}
		r.totalled = true
	}
	err = r.readShops(ctx, tx, f, func(shops []string) error {
		return r.readLooks(ctx, tx, f, shops, func(k refusalKey, c refusalCount) error { return r.add(f.refusalRow(k, c)...) })
	})
	for _, k := range sortedKeys(counts, func(a, b refusalKey) int {
		return cmp.Or(-cmp.Compare(a.day, b.day), cmp.Compare(a.shop, b.shop), cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.reason, b.reason))
	}) {
		if err == nil {
			err = r.add(f.refusalRow(k, counts[k])...)
		}
	}
	if r.cut = errors.Is(err, errEnough); err != nil && !r.cut {
		return err
	}
	r.addTotals("scanned", "typed", "all")
	return nil
}

// shopsAtOnce are read in one statement where the rows are told apart by them.
const shopsAtOnce = 500

// readShops calls read for the first and the last of some shops after others; with nil where
// all come in one go, because rows begin with something else.
func (r *Report) readShops(ctx context.Context, tx *sql.Tx, f Filter, read func(ends []string) error) error {
	if f.by("day") || !f.by("shop") && !f.by("terminal") {
		return read(nil)
	}
	var shops []string
	var c conditions
	c.ofTerminals(f, "name")
	err := each(ctx, tx, "SELECT DISTINCT CASE WHEN shop = '' THEN name ELSE shop END FROM terminals"+c.where()+" ORDER BY 1", c.args, func(rows *sql.Rows) error {
		shops = append(shops, "")
		return rows.Scan(&shops[len(shops)-1])
	})
	if err != nil {
		return fmt.Errorf("shops: %w", err)
	}
	for some := range slices.Chunk(shops, shopsAtOnce) {
		if err := read([]string{some[0], some[len(some)-1]}); err != nil {
			return err
		}
	}
	return nil
}

// refusal leaves of a key what the rows are told apart by.
func (f Filter) refusal(k refusalKey, places map[string]place) refusalKey {
	if k.shop = cmp.Or(places[k.terminal].shop, k.terminal); !f.by("shop") && !f.by("terminal") {
		k.shop = ""
	}
	if !f.by("terminal") {
		k.terminal = ""
	}
	if !f.by("day") {
		k.day = ""
	}
	if !f.by("reason") {
		k.outcome, k.reason = "", ""
	}
	return k
}

func (f Filter) refusalRow(k refusalKey, c refusalCount) []Value {
	row := []Value{textValue(k.saidBy)}
	if f.by("day") {
		row = append(row, Value{Kind: KindDay, Known: k.day != "", Text: k.day})
	}
	if f.by("shop") || f.by("terminal") {
		row = append(row, textValue(k.shop))
	}
	if f.by("terminal") {
		row = append(row, textValue(k.terminal))
	}
	if f.by("reason") {
		row = append(row, textValue(k.outcome), textValue(k.reason))
	}
	return append(row, intValue(c.scanned), intValue(c.typed), intValue(c.scanned+c.typed))
}

// readLooks reads what terminals told, added up by the words of by, in the order of the rows.
func (r *Report) readLooks(ctx context.Context, tx *sql.Tx, by Filter, shops []string, use func(refusalKey, refusalCount) error) error {
	var c conditions
	c.ofTerminals(r.Filter, "l.terminal")
	if !r.Filter.From.IsZero() {
		c.and("l.day >= $%d", r.Filter.From.String())
	}
	if !r.Filter.To.IsZero() {
		c.and("l.day <= $%d", r.Filter.To.String())
	}
	const shop = "CASE WHEN t.shop = '' THEN t.name ELSE t.shop END"
	if shops != nil {
		c.and(shop+" >= $%d", shops[0])
		c.and(shop+" <= $%d", shops[1])
	}
	var k refusalKey
	var columns, order []string
	var into []any
	for _, x := range []struct {
		asked  bool
		column string
		to     *string
	}{{by.by("day"), "l.day", &k.day}, {by.by("shop") || by.by("terminal"), shop, &k.shop}, {by.by("terminal"), "l.terminal", &k.terminal}, {by.by("reason"), "l.reason", &k.reason}} {
		if x.asked {
			columns, order, into = append(columns, x.column), append(order, fmt.Sprint(len(columns)+1)), append(into, x.to)
		}
	}
	groups := strings.Join(order, ", ")
	if by.by("day") {
		order[0] += " DESC"
	}
	var n refusalCount
	err := each(ctx, tx, "SELECT "+strings.Join(columns, ", ")+", CAST(sum(CASE WHEN l.entered = '"+string(validate.Typed)+"' THEN 0 ELSE l.number END) AS BIGINT), CAST(sum(CASE WHEN l.entered = '"+string(validate.Typed)+"' THEN l.number ELSE 0 END) AS BIGINT) FROM looks l JOIN terminals t ON t.name = l.terminal"+
		c.where()+" GROUP BY "+groups+" ORDER BY "+strings.Join(order, ", "), c.args, func(rows *sql.Rows) error {
		if err := rows.Scan(append(into, &n.scanned, &n.typed)...); err != nil {
			return err
		}
		k.saidBy = "terminal"
		if by.by("reason") {
			k.outcome = string(validate.Reason(k.reason).Outcome())
		}
		return use(k, n)
	})
	if err != nil {
		return fmt.Errorf("looks: %w", err)
	}
	return nil
}

func (r *Report) readDenied(ctx context.Context, tx *sql.Tx, count func(refusalKey, int64)) error {
	var c conditions
	c.ofTerminals(r.Filter, "terminal")
	c.ofDays(r.Filter, "asked")
	c.and("state = $%d", wire.ClaimDenied)
	err := each(ctx, tx, "SELECT terminal, asked, why FROM online_claims"+c.where(), c.args, func(rows *sql.Rows) error {
		k := refusalKey{saidBy: "central", outcome: "denied"}
		var asked string
		if err := rows.Scan(&k.terminal, &asked, &k.reason); err != nil {
			return err
		}
		k.day = dayOfStored(asked, r.Zone).String()
		count(k, 1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("claims that were asked about: %w", err)
	}
	return nil
}

// Outages are evidence: one row each, from the last sign before it to the first one after,
// by central's clock. A filter's days cut an outage that reaches over them.
func aboutOutages() About {
	return About{Name: "outages", Title: Text{"Indisponibilités", "Outages"}, Filters: []string{"terminal", "shop", "region", "from", "to"}, By: []string{"outage", "terminal"},
		What: Text{"Les temps sans contact (cause : ligne, ou programme arrêté) et les pannes dites, avec leur durée dans la période choisie.",
			"Times without contact (cause: link, or program stopped) and faults as told, with how long each lasted within the days chosen."},
		columns: func(f Filter) []Column {
			list := append(placeColumns(), Column{Key: "code", Kind: KindText, Title: Text{"code", "code"}}, Column{Key: "cause", Kind: KindText, Title: Text{"cause", "cause"}})
			if f.by("terminal") {
				return append(list, Column{Key: "outages", Kind: KindInt, Title: Text{"nombre", "number"}},
					Column{Key: "minutes", Kind: KindInt, Title: Text{"minutes", "minutes"}}, Column{Key: "longest", Kind: KindDuration, Title: Text{"la plus longue", "longest"}})
			}
			return append(list, Column{Key: "began", Kind: KindTime, Title: Text{"début", "began"}}, Column{Key: "ended", Kind: KindTime, Title: Text{"fin", "ended"}},
				Column{Key: "lasted", Kind: KindDuration, Title: Text{"durée", "lasted"}}, Column{Key: "minutes", Kind: KindInt, Title: Text{"minutes", "minutes"}})
		}, read: (*Report).readOutages}
}

// outage is one time without contact or with a fault.
type outage struct {
	terminal, code, cause string
	began, ended          time.Time // zero while it lasts
}

// codeSilent is the code of a time without contact, as central writes it.
const codeSilent = "no-contact"

func (r *Report) readOutages(ctx context.Context, tx *sql.Tx) error {
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return err
	}
	list, err := r.outages(ctx, tx, places)
	if err != nil {
		return err
	}
	if r.Filter.by("terminal") {
		return r.addOutageSums(list, places)
	}
	for _, o := range list {
		from, to := r.within(o)
		ended := Value{Kind: KindTime, Known: !o.ended.IsZero(), Time: o.ended}
		row := append(places[o.terminal].cells(o.terminal), textValue(o.code), knownText(o.cause), timeValue(o.began), ended, durationValue(to.Sub(from)), intValue(int64(to.Sub(from)/time.Minute)))
		if err := r.add(row...); err != nil {
			return err
		}
	}
	r.addTotals("minutes")
	return nil
}

// within is the part of an outage that lies in the filter's days and is over now.
func (r *Report) within(o outage) (from, to time.Time) {
	from, to = o.began, o.ended
	if to.IsZero() || to.After(r.Made) {
		to = r.Made
	}
	if f := r.Filter; !f.From.IsZero() {
		from = later(from, f.From.begin(f.Zone, 0))
	}
	if f := r.Filter; !f.To.IsZero() {
		if end := f.To.begin(f.Zone, 1); end.Before(to) {
			to = end
		}
	}
	return from, later(from, to)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// outages are those of the filter, by terminal and time. A silence that goes on now has no
// row yet: it is seen by the last contact.
func (r *Report) outages(ctx context.Context, tx *sql.Tx, places map[string]place) ([]outage, error) {
	var c conditions
	c.ofTerminals(r.Filter, "terminal")
	if f := r.Filter; !f.From.IsZero() {
		c.text = append(c.text, "(ended = '' OR ended > "+c.arg(wire.FormatTime(f.From.begin(f.Zone, 0)))+")")
	}
	if f := r.Filter; !f.To.IsZero() {
		c.and("began < $%d", wire.FormatTime(f.To.begin(f.Zone, 1)))
	}
	var list []outage
	err := each(ctx, tx, "SELECT terminal, code, cause, began, ended FROM outages"+c.where(), c.args, func(rows *sql.Rows) error {
		var o outage
		var began, ended string
		if err := rows.Scan(&o.terminal, &o.code, &o.cause, &began, &ended); err != nil {
			return err
		}
		var err error
		if o.began, err = storedTime(began); err == nil {
			o.ended, err = storedTime(ended)
		}
		list = append(list, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outages: %w", err)
	}
	c = conditions{}
	c.ofTerminals(r.Filter, "name")
	err = each(ctx, tx, "SELECT name FROM terminals"+c.where("contact <> ''"), c.args, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		o := outage{terminal: name, code: codeSilent}
		if err == nil {
			o.began, err = storedTime(places[name].contact)
		}
		if err == nil && r.Made.Sub(o.began) >= ContactWithin {
			if from, to := r.within(o); to.After(from) {
				list = append(list, o)
			}
		}
		return err
	})
	sortOutages(list, places)
	return list, err
}

// addOutageSums adds one row a terminal, code and cause.
func (r *Report) addOutageSums(list []outage, places map[string]place) error {
	type key struct{ terminal, code, cause string }
	type sum struct {
		n, minutes int64
		longest    time.Duration
	}
	sums := map[key]sum{}
	for _, o := range list {
		from, to := r.within(o)
		k := key{o.terminal, o.code, o.cause}
		s := sums[k]
		sums[k] = sum{s.n + 1, s.minutes + int64(to.Sub(from)/time.Minute), max(s.longest, to.Sub(from))}
	}
	for _, k := range sortedKeys(sums, func(a, b key) int {
		return cmp.Or(cmp.Compare(places[a.terminal].shop, places[b.terminal].shop), cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.code, b.code), cmp.Compare(a.cause, b.cause))
	}) {
		s := sums[k]
		if err := r.add(append(places[k.terminal].cells(k.terminal), textValue(k.code), knownText(k.cause), intValue(s.n), intValue(s.minutes), durationValue(s.longest))...); err != nil {
			return err
		}
	}
	r.addTotals("outages", "minutes")
	return nil
}

func sortOutages(list []outage, places map[string]place) {
	slices.SortFunc(list, func(a, b outage) int {
		return cmp.Or(cmp.Compare(places[a.terminal].shop, places[b.terminal].shop), cmp.Compare(a.terminal, b.terminal), a.began.Compare(b.began), cmp.Compare(a.code, b.code))
	})
}
