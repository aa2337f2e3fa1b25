package report

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// States of a terminal in the sync report. Each terminal is in exactly one. The age of
// the last contact is taken without its sign: a contact in the future means that
// central's clock was wrong, and shows nothing good.
const (
	StateMissing   = "missing"    // no contact for LateAfter or longer
	StateLate      = "late"       // no contact for ContactWithin or longer
	StateNeverSeen = "never-seen" // added, and not one contact since
	StateSuspended = "suspended"  // by a person or after a fork, whatever its contact
	StateInContact = "in-contact" // a contact less than ContactWithin ago
)

const (
	ContactWithin = wire.SilentAfter
	LateAfter     = 24 * time.Hour
)

// states in the order of the report: what needs a person comes first.
func states() []Part {
	return []Part{
		{Key: StateMissing, Title: Text{"absents (24 h ou plus)", "missing (24 h or more)"}},
		{Key: StateLate, Title: Text{"en retard (10 min à 24 h)", "late (10 min to 24 h)"}},
		{Key: StateNeverSeen, Title: Text{"jamais vus", "never seen"}},
		{Key: StateSuspended, Title: Text{"suspendus", "suspended"}},
		{Key: StateInContact, Title: Text{"en contact (moins de 10 min)", "in contact (under 10 min)"}},
	}
}

func syncColumns() []Column {
	return []Column{
		{Key: "terminal", Kind: KindText, Title: Text{"terminal", "terminal"}},
		{Key: "state", Kind: KindText, Title: Text{"état", "state"}},
		{Key: "contact", Kind: KindTime, Title: Text{"dernier contact", "last contact"}},
		{Key: "contact_age", Kind: KindDuration, Title: Text{"âge du contact", "contact age"}},
		{Key: "unsent", Kind: KindInt, Title: Text{"écritures non transmises (dites)", "unsent entries (as told)"}},
		{Key: "conflicts", Kind: KindInt, Title: Text{"conflits", "conflicts"}},
		{Key: "faults", Kind: KindText, Title: Text{"pannes", "faults"}},
		{Key: "data_lag", Kind: KindDuration, Title: Text{"retard des données", "data lag"}},
		{Key: "acked", Kind: KindText, Title: Text{"journal reçu", "journal held"}},
		{Key: "head", Kind: KindText, Title: Text{"journal du terminal (dit)", "terminal's head (as told)"}},
		{Key: "snapshot", Kind: KindInt, Title: Text{"publication", "snapshot"}},
		{Key: "snapshot_behind", Kind: KindInt, Title: Text{"publications de retard", "snapshots behind"}},
		{Key: "feed", Kind: KindInt, Title: Text{"fil", "feed"}},
		{Key: "feed_behind", Kind: KindInt, Title: Text{"avis de retard", "feed items behind"}},
		{Key: "skew", Kind: KindDuration, Title: Text{"écart d'horloge", "clock skew"}},
		{Key: "disk_free", Kind: KindInt, Title: Text{"disque libre (octets)", "disk free (bytes)"}},
		{Key: "certificate_end", Kind: KindTime, Title: Text{"fin du certificat", "certificate end"}},
		{Key: "program", Kind: KindText, Title: Text{"programme", "program"}},
		{Key: "reason", Kind: KindText, Title: Text{"motif de suspension", "why suspended"}},
		{Key: "frozen", Kind: KindText, Title: Text{"gelé (une personne doit voir)", "frozen (a person must look)"}},
		{Key: "shop", Kind: KindText, Title: Text{"point de vente", "shop"}},
		{Key: "region", Kind: KindText, Title: Text{"région", "region"}},
	}
}

func aboutSync() About {
	return About{Name: "sync", Title: Text{"Synchronisation des terminaux", "Synchronisation of the terminals"}, Filters: []string{"terminal", "shop", "region"},
		What: Text{"L'état de chaque terminal, ce qu'il n'a pas encore transmis et son retard sur ce qui est publié. Les états sont une partition.",
			"Each terminal's state, what it has not sent yet, and how far behind it is with what was published. The states are a partition."},
		columns: func(Filter) []Column { return syncColumns() }, parts: states, read: (*Report).readSync}
}

// Sync reports each terminal's state, what it has not sent yet, and how far behind it
// is with what central published. What a terminal told at its last hello is unknown
// until it said hello once. Rows come in the order of states, then by name.
func Sync(ctx context.Context, db *sql.DB, f Filter, now time.Time) (Report, error) {
	return aboutSync().make(ctx, db, f, now)
}

func (r *Report) readSync(ctx context.Context, tx *sql.Tx) error {
	list, err := readTerminals(ctx, tx, r.Filter)
	if err != nil {
		return err
	}
	p, err := readPublished(ctx, tx)
	if err != nil {
		return err
	}
	conflicts, err := countConflicts(ctx, tx)
	if err != nil {
		return err
	}
	place := map[string]int{}
	for i, part := range r.Parts {
		place[part.Key] = i
	}
	slices.SortStableFunc(list, func(a, b terminal) int { return place[a.stateAt(r.Made)] - place[b.stateAt(r.Made)] })
	for _, t := range list {
		r.Parts[place[t.stateAt(r.Made)]].Count++
		if err := r.add(t.row(r.Made, p, conflicts[t.name])...); err != nil {
			return err
		}
	}
	r.addTotals("unsent", "conflicts")
	return nil
}

// terminal is a row of the table terminals.
type terminal struct {
	name, state, reason, program, faults string
	frozen                               string // wire.Stop
	shop, region                         string
	contact, certificate                 time.Time // zero for none
	head, acked                          validate.EntryNumber
	snapshot, feed, unsent, diskFree     int64
	skewMS                               sql.NullInt64
}

func readTerminals(ctx context.Context, tx *sql.Tx, f Filter) ([]terminal, error) {
	var c conditions
	c.ofTerminals(f, "name")
	var list []terminal
	err := each(ctx, tx, `SELECT name, state, reason, frozen, contact, program, head_epoch, head_seq, ack_epoch, ack_seq, snapshot, feed, unsent,
		skew_ms, disk_free, cert_expires, faults, shop, region FROM terminals`+c.where()+" ORDER BY name", c.args, func(rows *sql.Rows) error {
		var t terminal
		var contact, certificate string
		if err := rows.Scan(&t.name, &t.state, &t.reason, &t.frozen, &contact, &t.program, &t.head.Epoch, &t.head.Seq, &t.acked.Epoch, &t.acked.Seq,
			&t.snapshot, &t.feed, &t.unsent, &t.skewMS, &t.diskFree, &certificate, &t.faults, &t.shop, &t.region); err != nil {
			return err
		}
		var err error
		if t.contact, err = storedTime(contact); err != nil {
			return fmt.Errorf("terminal %s: last contact: %w", t.name, err)
		}
		if t.certificate, err = storedTime(certificate); err != nil {
			return fmt.Errorf("terminal %s: certificate end: %w", t.name, err)
		}
		if len(list) == MaxRows {
			return fmt.Errorf("%w: more than %d terminals", ErrTooLarge, MaxRows)
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

func (t terminal) stateAt(now time.Time) string {
	if t.state == StateSuspended {
		return StateSuspended
	}
	if t.contact.IsZero() {
		return StateNeverSeen
	}
	switch age := now.Sub(t.contact).Abs(); {
	case age < ContactWithin:
		return StateInContact
	case age < LateAfter:
		return StateLate
	}
	return StateMissing
}

// States counts the terminals in each state, as the sync report divides them. It reads
// two columns, for who asks often.
func States(ctx context.Context, db *sql.DB, now time.Time) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, p := range states() {
		counts[p.Key] = 0
	}
	rows, err := db.QueryContext(ctx, "SELECT state, contact FROM terminals")
	if err != nil {
		return nil, fmt.Errorf("terminals: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var t terminal
		var contact string
		if err := rows.Scan(&t.state, &contact); err != nil {
			return nil, err
		}
		if contact != "" {
			if t.contact, err = wire.ParseTime(contact); err != nil {
				return nil, fmt.Errorf("a terminal's contact: %w", err)
			}
		}
		counts[t.stateAt(now)]++
	}
	return counts, rows.Err()
}

// told tells whether the terminal ever said hello; an upload alone says little.
func (t terminal) told() bool { return t.program != "" || t.skewMS.Valid }

func (t terminal) row(now time.Time, p published, conflicts int64) []Value {
	contact, age, end := unknown(KindTime), unknown(KindDuration), unknown(KindTime)
	if !t.contact.IsZero() {
		contact, age = timeValue(t.contact), durationValue(now.Sub(t.contact))
	}
	if !t.certificate.IsZero() {
		end = timeValue(t.certificate)
	}
	unsent, head, snapshot, snapshotBehind := unknown(KindInt), unknown(KindText), unknown(KindInt), unknown(KindInt)
	feed, feedBehind, lag, skew, disk, faults := unknown(KindInt), unknown(KindInt), unknown(KindDuration), unknown(KindDuration), unknown(KindInt), unknown(KindText)
	if t.told() || t.head.Seq > 0 { // uploads tell it too
		head = textValue(t.head.String())
	}
	if t.told() {
		unsent, disk, faults = intValue(t.unsent), intValue(t.diskFree), faultList(t.faults)
		snapshot, snapshotBehind = intValue(t.snapshot), intValue(p.newestSnapshot()-t.snapshot)
		behind, since := p.missing(t)
		feed, feedBehind, lag = intValue(t.feed), intValue(behind), durationValue(0)
		if !since.IsZero() {
			lag = durationValue(max(0, now.Sub(since)))
		}
	}
	if t.skewMS.Valid {
		skew = Value{Kind: KindDuration, Known: true, Int: t.skewMS.Int64}
	}
	return []Value{textValue(t.name), textValue(t.stateAt(now)), contact, age, unsent, intValue(conflicts), faults, lag, textValue(t.acked.String()), head,
		snapshot, snapshotBehind, feed, feedBehind, skew, disk, end, knownText(t.program), knownText(t.reason), knownText(t.frozen), textValue(cmp.Or(t.shop, t.name)), knownText(t.region)}
}

// faultList writes the stored list of codes as words; "" is no fault.
func faultList(stored string) Value {
	var codes []string
	if err := json.Unmarshal([]byte(stored), &codes); err != nil {
		return unknown(KindText)
	}
	return textValue(strings.Join(codes, " "))
}

// issue is something central published, and when.
type issue struct {
	number int64
	at     time.Time
}

// published is what terminals should have by now, oldest first.
type published struct {
	snapshots []issue
	forAll    []issue
	forOne    map[string][]issue
}

// readPublished leaves out the part of the feed that every terminal ever seen has.
func readPublished(ctx context.Context, tx *sql.Tx) (published, error) {
	p := published{forOne: map[string][]issue{}}
	read := func(rows *sql.Rows) (x issue, audience string, err error) {
		var at string
		if err := rows.Scan(&x.number, &at, &audience); err != nil {
			return x, "", err
		}
		x.at, err = wire.ParseTime(at)
		return x, audience, err
	}
	err := each(ctx, tx, "SELECT version, issued, '' FROM snapshots ORDER BY version", nil, func(rows *sql.Rows) error {
		x, _, err := read(rows)
		p.snapshots = append(p.snapshots, x)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("snapshots: %w", err)
	}
	err = each(ctx, tx, "SELECT seq, at, audience FROM feed WHERE seq > (SELECT coalesce(min(feed), 0) FROM terminals WHERE contact <> '') ORDER BY seq", nil, func(rows *sql.Rows) error {
		x, audience, err := read(rows)
		if audience == "" {
			p.forAll = append(p.forAll, x)
		} else {
			p.forOne[audience] = append(p.forOne[audience], x)
		}
		return err
	})
	if err != nil {
		return p, fmt.Errorf("feed: %w", err)
	}
	return p, nil
}

// newestSnapshot is its version, 0 before the first.
func (p published) newestSnapshot() int64 {
	if len(p.snapshots) == 0 {
		return 0
	}
	return p.snapshots[len(p.snapshots)-1].number
}

// missing counts the feed items that t has not got, and tells since when it has been
// without something, item or snapshot; zero for nothing.
func (p published) missing(t terminal) (items int64, since time.Time) {
	for _, list := range [][]issue{p.forAll, p.forOne[t.name]} {
		lacks := above(list, t.feed)
		items += int64(len(lacks))
		since = earliest(since, lacks)
	}
	return items, earliest(since, above(p.snapshots, t.snapshot))
}

func above(list []issue, number int64) []issue {
	return list[sort.Search(len(list), func(i int) bool { return list[i].number > number }):]
}

func earliest(since time.Time, lacks []issue) time.Time {
	if len(lacks) > 0 && (since.IsZero() || lacks[0].at.Before(since)) {
		return lacks[0].at
	}
	return since
}

func countConflicts(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	counts := map[string]int64{}
	err := each(ctx, tx, "SELECT terminal, count(*) FROM conflicts GROUP BY terminal", nil, func(rows *sql.Rows) error {
		var terminal string
		var n int64
		if err := rows.Scan(&terminal, &n); err != nil {
			return err
		}
		counts[terminal] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("conflicts: %w", err)
	}
	return counts, nil
}
