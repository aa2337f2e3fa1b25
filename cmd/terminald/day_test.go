package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/cmd/internal/counter"
	"grattoir/device/sim"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// TestDayOfFaultsEndsWithLedgerPaperAndScreenAgreeing serves a day's tickets with the real
// program, while scanner, printer and power fail as testdata/day.sim says. A clerk who sees
// nothing but the page scans until it shows a verdict, presses PAYER until it says PAID,
// and has slips that may not have come out printed again. At the end every ticket is looked
// up three times: what the screen said, what the ledger holds, what lies on the counter.
//
// Among the package's tests it is a short day; make test plays the whole one beside them,
// with GRATTOIR_DAY=whole. GRATTOIR_DAY_SCRIPT plays another script, GRATTOIR_DAY_SEED
// with another seed.
func TestDayOfFaultsEndsWithLedgerPaperAndScreenAgreeing(t *testing.T) {
	t.Parallel()
	script := dayScript(t)
	d := openDay(t, script)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	d.wanted = true
	d.up(ctx)
	began := time.Now()
	err := script.Play(ctx, sim.Stage{Hands: d.hands, Ticket: d.serve, Told: d.told})
	if err != nil {
		t.Fatal(err)
	}
	d.evening(ctx)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	d.compare()
	t.Logf("seed %d: %d tickets in %v; %d scans, %d faults, %d starts", script.Seed, len(d.rows), time.Since(began).Round(time.Second), d.scans, len(d.log), d.starts)
}

func dayScript(t *testing.T) *sim.Script {
	t.Helper()
	path := os.Getenv("GRATTOIR_DAY_SCRIPT")
	whole := path != "" || os.Getenv("GRATTOIR_DAY") == "whole" || os.Getenv("GRATTOIR_SOAK") != ""
	if path == "" {
		path = filepath.Join("testdata", "day.sim")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !whole {
		text = bytes.Replace(text, []byte("every 20 tickets draw\ntickets 1000\n"), []byte("every 10 tickets draw\ntickets 200\n"), 1)
	}
	s, err := sim.ParseScript(path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if text := os.Getenv("GRATTOIR_DAY_SEED"); text != "" {
		if s.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// row is one ticket of the day.
type row struct {
	n     int
	code  ticket.Code
	prize string // in minor units

	shown  string // the last verdict of it that the screen showed
	paid   bool   // the screen said PAID, or that it was paid before
	number string // the entry that the screen named
	scans  int
}

// day is a shop, its clerk, and what the clerk was told.
type day struct {
	*shop
	t      *testing.T
	hands  *sim.Devices
	eyes   *eyes
	rows   []*row
	offers []*row // the tickets to come
	scans  int

	mu     sync.Mutex // guards the program and what follows
	wanted bool       // the program is to run
	alive  bool       // it did when it was last looked at
	starts int
	log    []string // what the script has done
}

// dayTiers leave enough of each kind of ticket for a long day.
var dayTiers = []manifest.Tier{{Count: 40, Amount: 200000}, {Count: 800, Amount: 2000}}

func openDay(t *testing.T, script *sim.Script) *day {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := &day{t: t, shop: &shop{codes: sealTickets(t, dir, 1500, dayTiers)}}
	address := counter.FreeAddress("127.0.0.1:0")
	config := strings.NewReplacer("127.0.0.1:0", address, "baud = 115200", "baud = 921600").Replace(shopConfig)
	if err := os.WriteFile(filepath.Join(dir, "terminald.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.Counter, err = counter.Open(dir, path, sim.PrinterOptions{Columns: 48, Seed: script.Seed}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close(script) })
	d.hands = &sim.Devices{Scanner: d.Glass, Printer: d.Paper, Daemon: d.daemon, Seed: script.Seed}
	d.eyes = openEyes(t, "http://"+address+"/")
	d.choose(script)
	return d
}

// choose lays out the tickets in the order in which they come, and a tenth of them twice.
func (d *day) choose(script *sim.Script) {
	rng := mathrand.New(mathrand.NewPCG(script.Seed, 2))
	var all []*row
	for _, prize := range []string{"0", "2000", "200000"} {
		for _, c := range d.codes[prize] {
			all = append(all, &row{code: c, prize: prize})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range script.Tickets() {
		if i > 20 && rng.IntN(10) == 0 {
			d.offers = append(d.offers, d.offers[rng.IntN(i-10)])
			continue
		}
		r := all[0]
		all = all[1:]
		d.offers = append(d.offers, r)
	}
}

func (d *day) close(script *sim.Script) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.t.Failed() {
		log, _ := os.ReadFile(d.LogPath())
		d.t.Logf("terminald's log:\n%s\nthe script (run it again with GRATTOIR_DAY_SEED=%d):\n%v\nwhat it did:\n%s", log, script.Seed, script, strings.Join(d.log, "\n"))
	}
	d.Close()
}

func (d *day) told(e sim.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, time.Now().UTC().Format("15:04:05.000 ")+e.String())
}

// daemon is the script's hand on the program.
func (d *day) daemon(ctx context.Context, what, step string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = what == "start" || what == "kill at"
	switch what {
	case "kill":
		d.Crash()
	case "stop", "kill at":
		if d.runs() {
			if err := d.Stop(); err != nil {
				return err
			}
		}
	}
	d.alive = false
	switch {
	case !d.wanted:
		return nil
	case step == "":
		return d.begin(ctx)
	}
	// A slip that waited may meet the step before the program is ready: the clerk finds
	// it gone.
	_ = d.begin(ctx, "GRATTOIR_CRASH="+step)
	return nil
}

// up sees to it that the program runs, unless the script wants it not to.
func (d *day) up(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted {
		return
	}
	if d.runs() {
		return
	}
	if err := d.begin(ctx); err != nil {
		d.t.Error(err)
	}
}

// runs says whether the program runs, and takes note when it has killed itself at its
// step. The lock is held.
func (d *day) runs() bool {
	if !d.alive {
		return false
	}
	select {
	case err := <-d.Ended():
		_ = d.Trouble(err)
		d.alive = false
	default:
	}
	return d.alive
}

// begin starts the program. The lock is held.
func (d *day) begin(ctx context.Context, env ...string) error {
	d.starts++
	err := d.Start(ctx, env...)
	d.alive = err == nil
	return err
}

// serve is the clerk with one customer.
func (d *day) serve(ctx context.Context, n int) error {
	r := d.offers[n-1]
	if r.n == 0 {
		r.n = n
		d.rows = append(d.rows, r)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a minute at one ticket"))
	defer cancel()
	for first := true; ctx.Err() == nil; first = false {
		d.up(ctx)
		s, ok := d.scan(ctx, r, first)
		if !ok {
			continue
		}
		if s, ok = d.settle(ctx, r, s); ok {
			r.shown = s.look + " " + s.code
			d.hand(ctx, r, s)
			d.again(ctx)
			return nil
		}
	}
	s, _ := d.eyes.look()
	return fmt.Errorf("%v: %w; the screen shows %q", r.code, context.Cause(ctx), strings.Fields(s.text))
}

// names says that a view is of the row's ticket.
func (r *row) names(s sight) bool {
	return strings.Contains(s.text, r.code.Game+"-"+r.code.PackText()+"-"+r.code.NumberText())
}

// scan shows the ticket to the scanner until the screen shows a verdict of it. It is not
// scanned again within the time in which the driver takes it for the same scan.
func (d *day) scan(ctx context.Context, r *row, first bool) (sight, bool) {
	before, _ := d.eyes.look()
	if !first && r.names(before) {
		return before, true
	}
	d.scans++
	r.scans++
	if err := d.Glass.Scan(r.code.Digits()); err != nil && !errors.Is(err, sim.ErrUnplugged) {
		d.t.Logf("ticket %d: %v", r.n, err) // a driver that does not read: the clerk tries again
	}
	s, seen := d.eyes.until(ctx, time.Second, func(s sight) bool { return s.id != before.id && s.id != "" && s.look != "again" && r.names(s) })
	return s, seen
}

// settle pays what is to be paid, and says whether the clerk is done with the ticket.
func (d *day) settle(ctx context.Context, r *row, s sight) (sight, bool) {
	for ctx.Err() == nil {
		switch {
		case s.look == "done", s.code == validate.AlreadyPaidHere.Code():
			r.paid = true
			if number := s.number(); r.number != "" && r.number != number {
				d.t.Errorf("ticket %d: the screen named entry %s, and now %s", r.n, r.number, number)
			} else {
				r.number = number
			}
			return s, true
		case s.look == "win":
			if err := d.eyes.press(ctx, s, "pay"); err != nil {
				return s, false // it may be paid or not: scan again
			}
		case s.code == validate.PrinterNotReady.Code(): // paid when the printer is ready
		default:
			return s, true
		}
		was := s
		s, _ = d.eyes.until(ctx, 10*time.Second, func(s sight) bool { return s.id != was.id || s.look != was.look || s.code != was.code })
		if s.id != was.id {
			return s, false // the program went, or a late scan came between
		}
	}
	return s, false
}

// hand waits for the slip, to hand it over, for as long as the customer does: three of
// four wait, and none for a printer that is in trouble.
func (d *day) hand(ctx context.Context, r *row, s sight) {
	const out = "Reçu imprimé."
	if s.look == "done" && r.n%4 != 0 {
		d.eyes.until(ctx, 300*time.Millisecond, func(now sight) bool { return now.id != s.id || strings.Contains(now.text, out) })
	}
}

// again has a slip printed again that the status line names.
func (d *day) again(ctx context.Context) {
	s, _ := d.eyes.look()
	if number := missing.FindStringSubmatch(s.text); number != nil {
		_, _ = d.Client.Reprint(ctx, number[1]) // asked again while it stays on the line
	}
}

// evening waits for the slips, and has those printed again of which nobody knows.
func (d *day) evening(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		d.up(ctx)
		again, quiet := d.unsure(ctx)
		if quiet && len(again) == 0 {
			return
		}
		for _, number := range again {
			_, _ = d.Client.Reprint(ctx, number) // asked again while it stays among them
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	d.t.Errorf("the slips are not out: %v", ctx.Err())
}

// unsure are the payments whose slip may not be out, by the page that shows each of them;
// quiet says that no slip is on its way.
func (d *day) unsure(ctx context.Context) (again []string, quiet bool) {
	st, err := d.Client.Status(ctx)
	if err != nil || st.Printer != nil {
		return nil, false
	}
	last, err := d.Client.Last(ctx)
	if err != nil {
		return nil, false
	}
	for _, r := range last {
		if r.Print == validate.Sending || r.Print == validate.Held {
			return nil, false
		}
	}
	return st.Reprint, true
}

// book is the stopped terminal's ledger, verified.
func (d *day) book() (map[string]validate.Receipt, ledger.Check) {
	l, err := ledger.Open(context.Background(), ledger.Options{Path: filepath.Join(d.Dir, "data", "ledger.db"), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{} }})
	if err != nil {
		d.t.Fatal(err)
	}
	defer l.Close()
	check, err := l.Verify(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	list, err := l.Last(context.Background(), 10000)
	if err != nil {
		d.t.Fatal(err)
	}
	receipts := map[string]validate.Receipt{}
	for _, r := range list {
		key := r.Slip.Pack + "-" + r.Slip.Ticket
		if other, twice := receipts[key]; twice {
			d.t.Errorf("ticket %s has the claims %v and %v", key, other.Number, r.Number)
		}
		receipts[key] = r
	}
	return receipts, check
}

// paper is what lies on the counter of one ledger number.
type paper struct {
	originals, copies int // with and without their end
	whole             []string
}

// papers sorts the slips by the number on them. A torn one without a number is nobody's.
func (d *day) papers() map[string]*paper {
	const end = "Conservez ce reçu."
	found := map[string]*paper{}
	for _, slip := range append(d.Paper.Slips(), d.Paper.Uncut()) {
		text := slip.Text()
		numbers := slices.Compact(slices.Sorted(slices.Values(entryOf.FindAllString(text, -1))))
		if len(numbers) > 1 {
			d.t.Errorf("one piece of paper has the slips %v:\n%s", numbers, text)
		}
		for _, number := range numbers {
			p := found[number]
			if p == nil {
				p = &paper{}
				found[number] = p
			}
			if strings.Contains(text, "DUPLICATA") {
				p.copies++
			} else {
				p.originals++
			}
			if strings.Contains(text, end) {
				p.whole = append(p.whole, text)
			}
		}
	}
	return found
}

// compare looks every ticket up on the screen, in the ledger and on paper.
func (d *day) compare() {
	d.t.Helper()
	receipts, check := d.book()
	found := d.papers()
	claims := 0
	for _, r := range d.rows {
		key := r.code.PackText() + "-" + r.code.NumberText()
		receipt, claimed := receipts[key]
		if claimed {
			claims++
		}
		for _, wrong := range r.disagree(receipt, claimed, found) {
			d.t.Errorf("ticket %d, %v, prize %s, screen %q: %s", r.n, r.code, r.prize, r.shown, wrong)
		}
		delete(receipts, key)
		delete(found, r.number)
	}
	for key, r := range receipts {
		d.t.Errorf("entry %v pays ticket %s, which nobody presented", r.Number, key)
	}
	for number := range found {
		d.t.Errorf("a slip has the number %s, which no screen showed", number)
	}
	if check.Claims != int64(claims) || int64(check.Money) != int64(claims)*2000 {
		d.t.Errorf("%d tickets are paid; the journal has %d claims and %d", claims, check.Claims, check.Money)
	}
	if d.t.Failed() {
		d.t.Logf("all the paper:\n%s", d.Paper.Text())
	}
}

// disagree says in what screen, ledger and paper are not of one mind about a ticket.
func (r *row) disagree(receipt validate.Receipt, claimed bool, found map[string]*paper) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if want := r.wanted(); !slices.Contains(want, r.shown) {
		say("want one of %q", want)
	}
	winner := r.prize == "2000"
	if claimed != winner || r.paid != winner {
		say("claimed %v, said to be paid %v, wins %v", claimed, r.paid, winner)
	}
	if !claimed || !winner {
		return wrong
	}
	number := receipt.Number.String()
	if number != r.number || int64(receipt.Amount) != 2000 {
		say("the screen named entry %s, the ledger has %s with %d", r.number, number, receipt.Amount)
	}
	p := found[number]
	if p == nil {
		p = &paper{}
	}
	if p.originals > 1 {
		say("entry %s has %d slips that are no DUPLICATA", number, p.originals)
	}
	if len(p.whole) == 0 {
		say("entry %s is %q after %d copies and has no whole slip (%d originals, %d copies)", number, receipt.Print, receipt.Copies, p.originals, p.copies)
	}
	for _, text := range p.whole {
		for _, want := range []string{number, "20 €", "vingt euros", r.code.PackText() + "-" + r.code.NumberText()} {
			if !strings.Contains(text, want) {
				say("its slip lacks %q:\n%s", want, text)
			}
		}
	}
	return wrong
}

// wanted are the last views that may be shown of a ticket.
func (r *row) wanted() []string {
	switch r.prize {
	case "0":
		return []string{"lose " + validate.NotAWinner.Code()}
	case "2000":
		return []string{"done ", "paid " + validate.AlreadyPaidHere.Code()}
	}
	return []string{"centre " + validate.AboveShopLimit.Code()}
}

// TestDayScriptNamesEveryActOfTheDevices keeps the day complete: an act that the language
// gets is in it, or is named here with the reason why not.
func TestDayScriptNamesEveryActOfTheDevices(t *testing.T) {
	text := dayScript(t).String()
	unused := map[string]string{
		"scan CODE": "the clerk scans", "scan raw HEX": "noise covers it", "wait slip": "the clerk does not wait", "wait open": "nor for the driver",
		"printer buffer N drop": "see day.sim", "printer line TIME": "slow does the same",
	}
	for _, f := range sim.Forms() {
		if unused[f.Pattern] != "" {
			continue
		}
		words := slices.DeleteFunc(strings.Fields(f.Pattern), func(w string) bool { return w == strings.ToUpper(w) })
		if !containsWords(text, words) {
			t.Errorf("day.sim has no %q (%s)", f.Pattern, f.Means)
		}
	}
}

// containsWords says that some line has the words in their order.
func containsWords(text string, words []string) bool {
	for line := range strings.Lines(text) {
		rest := words
		for _, w := range strings.Fields(line) {
			if len(rest) > 0 && rest[0] == w {
				rest = rest[1:]
			}
		}
		if len(rest) == 0 {
			return true
		}
	}
	return false
}
