package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

// overviewPage is what operations keep open all day: whether terminals are heard, what waits
// for a person, how the day goes. It renews itself (console.js), and says when it cannot.
func (c *console) overviewPage() {
	c.page("GET /{$}", everybody(), c.showOverview)
	c.menu("/", everybody(), report.Text{FR: "Vue d'ensemble", EN: "Overview"})
}

const (
	signalsFor     = 10 * time.Minute // signals are counted no more often: they go over all claims
	signalsPatient = 2 * time.Second  // a page waits no longer for them
)

// signalCount is how many signals the last days hold, and how many of them yesterday's did not.
type signalCount struct {
	All, New int
	At       time.Time // when they were counted, zero before the first time
}

// signalCounter counts signals beside the pages: they take seconds in a large fleet.
type signalCounter struct {
	mu    sync.Mutex
	last  signalCount
	doing chan struct{} // closed when a count that goes on is done, nil for none
}

// count gives the newest count, a zero one where there is none yet.
func (s *signalCounter) count(now time.Time, do func() (signalCount, error)) signalCount {
	s.mu.Lock()
	if age := now.Sub(s.last.At); !s.last.At.IsZero() && age >= 0 && age < signalsFor {
		defer s.mu.Unlock()
		return s.last
	}
	doing := s.doing
	if doing == nil {
		doing = make(chan struct{})
		s.doing = doing
		go func() {
			defer close(doing)
			made, err := do()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.doing = nil; err == nil {
				s.last = made
			}
		}()
	}
	s.mu.Unlock()
	wait := time.NewTimer(signalsPatient)
	defer wait.Stop()
	select {
	case <-doing:
	case <-wait.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// countSignals counts those of the last days, and those that were not there yesterday.
func (c *console) countSignals(now time.Time) (signalCount, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*readWithin)
	defer cancel()
	y, m, d := now.In(c.opt.Zone).Date()
	day := func(before int) report.Day {
		y, m, d := time.Date(y, m, d-before, 0, 0, 0, 0, c.opt.Zone).Date()
		return report.Day{Year: y, Month: m, Day: d}
	}
	key := func(made report.Report, row []report.Value) string {
		of := cells(made, row)
		return fmt.Sprint(of("signal").Text, " ", of("terminal").Text, " ", of("block_id").Text, " ", tierOf.FindString(of("explained").Text))
	}
	f := report.Filter{From: day(usualDays - 1), Zone: c.opt.Zone}
	today, err := report.Make(ctx, c.db, "signals", f, now)
	if err == nil {
		f.To = day(1)
		var before report.Report
		if before, err = report.Make(ctx, c.db, "signals", f, now); err == nil {
			known := map[string]bool{}
			for _, row := range before.Rows {
				known[key(before, row)] = true
			}
			n := signalCount{All: len(today.Rows), At: now}
			for _, row := range today.Rows {
				if !known[key(today, row)] {
					n.New++
				}
			}
			return n, nil
		}
	}
	c.opt.Log.Error("signals not counted", "err", err)
	return signalCount{}, err
}

// tile is a number that leads to its rows.
type tile struct {
	Key, Number, Title, Note, Address string
	Alert                             bool
}

// topLine is the highest prize of an emission.
type topLine struct {
	publicPrize
	Alert bool
}

// paceLine is a currency's day.
type paceLine struct {
	report.Pace
	Paid, Usual, Share string
	Plot               template.HTML
}

type overviewView struct {
	sheet
	States   []chip
	All      int
	Tiles    []tile
	Paces    []paceLine
	Tops     []topLine
	Programs []chip
	Late     int64
}

func (c *console) showOverview(w http.ResponseWriter, r *http.Request) {
	v := overviewView{sheet: c.sheet(r, report.Text{FR: "Vue d'ensemble", EN: "Overview"})}
	v.Refresh = (c.stale / 3).Milliseconds() // it misses two answers before it is out of date
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		err = c.fillOverview(ctx, &v)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	c.render(w, r, statusOf(err), "overview.html", v)
}

func (c *console) fillOverview(ctx context.Context, v *overviewView) error {
	fleet, err := report.Fleet(ctx, c.db, report.FleetQuery{Limit: 1}, v.now)
	if err != nil {
		return err
	}
	glance, err := report.AtAGlance(ctx, c.db, c.opt.Zone, v.now)
	if err != nil {
		return err
	}
	prizes, _, err := c.prizesLeft(ctx)
	if err != nil {
		return err
	}
	v.All = fleet.All
	for _, p := range fleet.Parts {
		v.States = append(v.States, chip{p.Key, p.Title.In(v.lang), p.Count, v.Link("/fleet", "state", p.Key), false})
		if p.Key == report.StateMissing || p.Key == report.StateLate {
			v.Late += int64(p.Count)
		}
	}
	for _, p := range fleet.Programs {
		v.Programs = append(v.Programs, chip{p.Value, cmp.Or(p.Value, v.T("inconnu", "unknown")), p.Count, v.Link("/fleet", "program", p.Value), false})
	}
	v.tiles(fleet, glance, c.signals.count(v.now, func() (signalCount, error) { return c.countSignals(v.now) }))
	for _, p := range glance.Paces {
		v.Paces = append(v.Paces, v.pace(p))
	}
	v.tops(prizes)
	return nil
}

// tiles are what somebody may have to do, each leading to it.
func (v *overviewView) tiles(fleet report.FleetPage, g report.Glance, signals signalCount) {
	add := func(key string, n int64, title, note, address string) {
		v.Tiles = append(v.Tiles, tile{key, count(n), title, note, address, n > 0})
	}
	add("conflicts", g.Open, v.T("conflits ouverts", "open conflicts"), fmt.Sprintf(v.T("%s en examen", "%s under inquiry"), count(g.Inquiry)), v.Link("/conflicts", "state", string(central.ConflictOpen)))
	add("reversals", g.Reversals, v.T("reprises demandées", "reversals asked for"), v.T("attendent une décision", "wait for a decision"), v.Link("/reversals"))
	for _, t := range []struct{ key, title, note string }{
		{report.TroubleFaults, v.T("terminaux en panne", "terminals with faults"), v.T("pannes dites", "as told")},
		{report.TroubleStopped, v.T("terminaux qui ne paient pas", "terminals not paying"), v.T("arrêtés par une personne, ou gelés", "stopped by a person, or frozen")},
		{report.TroubleUnsent, v.T("avec des écritures à transmettre", "with entries to send"), v.T("dites au dernier contact", "as told at the last contact")},
		{report.TroubleBehind, v.T("en retard de publication", "behind in data"), v.T("n'ont pas la dernière", "without the newest")},
	} {
		add(t.key, int64(fleet.Troubles[t.key]), t.title, t.note, v.Link("/fleet", "trouble", t.key))
	}
	s := tile{"signals", "?", v.T("signaux nouveaux depuis hier", "signals new since yesterday"), v.T("décompte en cours", "being counted"), v.usual("signals"), false}
	if !signals.At.IsZero() {
		s.Number, s.Alert = count(int64(signals.New)), signals.New > 0
		s.Note = fmt.Sprintf(v.T("%s sur %d jours, comptés il y a %s", "%s in %d days, counted %s ago"), count(int64(signals.All)), usualDays, v.Ago(signals.At))
	}
	v.Tiles = append(v.Tiles, s)
}

// pace draws a day beside what such days usually are.
func (v *overviewView) pace(p report.Pace) paceLine {
	amount := func(a float64) string { return v.Money(int64(a), p.Currency) }
	line := paceLine{Pace: p, Paid: v.Money(p.Minor, p.Currency), Usual: "?", Share: "?"}
	highest := 1.0
	for _, n := range append(slices.Clone(p.Today), p.Expected...) {
		highest = max(highest, float64(n))
	}
	x := axis{max: 24}
	for h := 0; h <= 24; h += 3 {
		x.ticks = append(x.ticks, tick{float64(h), fmt.Sprintf("%d\u00a0h", h)})
	}
	desc := v.T("Payé aujourd'hui : ", "Paid today: ") + line.Paid
	if p.Weeks > 0 {
		line.Usual, line.Share = v.Money(p.Usual, p.Currency), v.Share(p.Minor, p.Usual)
		desc += v.T(" ; attendu à cette heure : ", "; expected by now: ") + line.Usual
	}
	chart := newChart("pace-"+p.Currency, v.T("Paiements du jour", "Today's payouts"), desc, 620, 220, x, niceAxis("", highest, amount))
	points := func(sums []int64, last float64) []point {
		list := []point{{0, 0}}
		for i, n := range sums {
			list = append(list, point{min(float64(i+1), last), float64(n)})
		}
		return list
	}
	chart.line("expected", v.T("attendu", "expected"), points(p.Expected, 24))
	y, m, d := v.now.In(v.zone).Date()
	chart.line("paid", v.T("payé", "paid"), points(p.Today, v.now.Sub(time.Date(y, m, d, 0, 0, 0, 0, v.zone)).Hours()))
	line.Plot = chart.SVG()
	return line
}

// tops are the highest prizes of each emission, fewest left first.
func (v *overviewView) tops(prizes []publicPrize) {
	seen := map[string]bool{}
	for _, p := range prizes { // the highest prize of an emission comes first
		if key := p.Game + "\x00" + p.Emission + "\x00" + p.Currency; !seen[key] {
			seen[key] = true
			v.Tops = append(v.Tops, topLine{p, p.Left-p.Uncertain < 1})
		}
	}
	slices.SortStableFunc(v.Tops, func(a, b topLine) int { return cmp.Compare(a.Left, b.Left) })
}
