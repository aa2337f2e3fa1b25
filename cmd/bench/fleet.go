package main

import (
	"container/heap"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/uplink"
)

// A country's terminals lose central and come back: how long it takes, and how often one
// is refused, by what decides when a terminal asks again. Ours is the shipped code of
// both sides, the uplink's Backoff and central's Admission, asked with the model's time.
const (
	fleetLost   = 2 * time.Second // within which all terminals notice
	fleetOutage = 28 * time.Minute
	fleetRate   = 300 // sessions a second that central serves
	fleetQueue  = 600 // that wait, where nothing gives out slots
	fleetWidth  = 64
	refusalCost = 10 // refusals that cost as much as a session
)

// comeback is a way of coming back. Pause is the next pause after so many failures;
// slots says that central's Admission decides and its Retry-After is obeyed.
type comeback struct {
	name  string
	pause func(t *member, slot time.Duration, random float64) time.Duration
	slots bool
}

// member is a terminal of the model.
type member struct {
	name    string
	tries   int
	back    uplink.Backoff
	refused int
}

func comebacks() []comeback {
	exponential := func(t *member, most time.Duration) time.Duration { return min(time.Second<<min(t.tries, 30), most) }
	return []comeback{
		{"fixed 60 s", func(*member, time.Duration, float64) time.Duration { return time.Minute }, false},
		{"exponential to 300 s, no jitter", func(t *member, _ time.Duration, _ float64) time.Duration { return exponential(t, 5*time.Minute) }, false},
		{"exponential, 10% jitter clamped at 300 s", func(t *member, _ time.Duration, r float64) time.Duration {
			return min(time.Duration(float64(exponential(t, 5*time.Minute))*(0.95+0.1*r)), 5*time.Minute)
		}, false},
		{"full jitter, cap 300 s", func(t *member, _ time.Duration, r float64) time.Duration {
			return time.Duration(r * float64(exponential(t, 5*time.Minute)))
		}, false},
		{"spread over 15 to 30 min", func(_ *member, _ time.Duration, r float64) time.Duration {
			return time.Duration((15 + 15*r) * float64(time.Minute))
		}, false},
		{"ours: full jitter, cap 60 s, slots", func(t *member, slot time.Duration, r float64) time.Duration {
			return t.back.Next(slot, uplink.RetryCap, r)
		}, true},
	}
}

// comebackResult is how it went. Times count from the moment central is back.
type comebackResult struct {
	name            string
	peak            int // arrivals in the busiest second
	refused         int
	mostRefused     int // of one terminal
	half, most, all time.Duration
	served          []time.Duration // in order
}

type event struct {
	at   time.Duration
	who  *member
	ends bool // its session ends
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// model is one run.
type model struct {
	how    comeback
	random *rand.Rand
	events events
	adm    *central.Admission
	begins map[*member]time.Duration
	queue  []*member
	work   int           // sessions under way
	debt   time.Duration // worker's time that refusals took
	second map[int]int   // arrivals by second
	r      comebackResult
}

// comeBack runs one way with so many terminals, the same each time.
func comeBack(how comeback, terminals int) comebackResult {
	m := &model{how: how, random: rand.New(rand.NewPCG(7, 11)), adm: central.NewAdmission(fleetWidth), begins: map[*member]time.Duration{}, second: map[int]int{}, r: comebackResult{name: how.name}}
	for i := range terminals {
		t := &member{name: fmt.Sprintf("T-%05d", i)}
		lost := time.Duration(m.random.Float64() * float64(fleetLost))
		heap.Push(&m.events, event{at: lost + m.how.pause(t, 0, m.random.Float64()), who: t})
		t.tries++
	}
	for len(m.events) > 0 && len(m.r.served) < terminals {
		e := heap.Pop(&m.events).(event)
		switch {
		case e.ends:
			m.end(e)
		case e.at < fleetOutage:
			m.again(e.who, e.at, 0)
		default:
			m.arrive(e.who, e.at)
		}
	}
	slices.Sort(m.r.served)
	for _, n := range m.second {
		m.r.peak = max(m.r.peak, n)
	}
	n := len(m.r.served)
	m.r.half, m.r.most, m.r.all = m.r.served[n/2], m.r.served[n*99/100], m.r.served[n-1]
	return m.r
}

func (m *model) again(t *member, at, slot time.Duration) {
	heap.Push(&m.events, event{at: at + m.how.pause(t, slot, m.random.Float64()), who: t})
	t.tries++
}

func (m *model) arrive(t *member, at time.Duration) {
	m.second[int(at/time.Second)]++
	verdict, slot := central.Serve, time.Duration(0)
	switch {
	case m.how.slots:
		verdict, slot = m.adm.Arrive(t.name, time.Unix(0, 0).Add(at))
	case m.work >= fleetWidth && len(m.queue) >= fleetQueue:
		verdict = central.Refuse
	case m.work >= fleetWidth:
		verdict = central.Wait
	}
	switch verdict {
	case central.Serve:
		m.begin(t, at)
	case central.Wait:
		m.queue = append(m.queue, t)
	case central.Refuse:
		m.debt += session / refusalCost
		t.refused++
		m.r.refused++
		m.r.mostRefused = max(m.r.mostRefused, t.refused)
		m.again(t, at, slot)
	}
}

// session is what one takes when all work.
const session = fleetWidth * time.Second / fleetRate

func (m *model) begin(t *member, at time.Duration) {
	m.work++
	m.begins[t] = at
	heap.Push(&m.events, event{at: at + session + m.debt, who: t, ends: true})
	m.debt = 0
}

func (m *model) end(e event) {
	m.work--
	m.r.served = append(m.r.served, e.at-fleetOutage)
	if m.how.slots {
		m.adm.Done(e.at-m.begins[e.who], time.Unix(0, 0).Add(e.at))
	}
	delete(m.begins, e.who)
	if len(m.queue) > 0 {
		if m.how.slots {
			m.adm.Begin()
		}
		m.begin(m.queue[0], e.at)
		m.queue = m.queue[1:]
	}
}

// fleet runs all ways, prints them and draws them.
func (b *bench) fleet() error {
	results, err := fleet(b.out, 30_000, os.Stderr)
	if err != nil {
		return err
	}
	ours, plain := results[len(results)-1], results[1]
	b.add("30 000 terminals back after an outage (model)", fmt.Sprintf("%.0f s, at most %d refusal each", ours.all.Seconds(), ours.mostRefused),
		fmt.Sprintf("exponential, no jitter: %.0f s", plain.all.Seconds()), fmt.Sprintf("%.2f", ours.all.Seconds()/plain.all.Seconds()), "180 s, 1 refusal")
	return nil
}

func fleet(out string, terminals int, log io.Writer) ([]comebackResult, error) {
	var results []comebackResult
	for _, how := range comebacks() {
		results = append(results, comeBack(how, terminals))
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMING BACK\tPEAK ARRIVALS/S\tREFUSED\tMOST OF ONE\t50% BACK\t99%\tALL")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.0f s\t%.0f s\t%.0f s\n", r.name, r.peak, r.refused, r.mostRefused, r.half.Seconds(), r.most.Seconds(), r.all.Seconds())
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(log, text.String()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(out, "fleet.txt"), []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	return results, os.WriteFile(filepath.Join(out, "fleet.svg"), []byte(fleetPlot(results)), 0o644)
}

// fleetPlot draws the share of terminals that are back over the time since central is, on
// a scale of powers of ten.
func fleetPlot(results []comebackResult) string {
	const width, height, left, top = 760, 360, 60, 30
	x := func(d time.Duration) float64 { return left + math.Log10(max(d.Seconds(), 1))/5*width }
	y := func(share float64) float64 { return top + (1-share)*height }
	colours := []string{"#999999", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00"}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", left+width+20, top+height+60+20*len(results))
	fmt.Fprintf(&b, `<text x="%d" y="18">terminals back, by the time since central is</text>`+"\n", left)
	for power := range 6 {
		at := x(time.Duration(math.Pow10(power)) * time.Second)
		fmt.Fprintf(&b, `<line x1="%.0f" y1="%d" x2="%.0f" y2="%d" stroke="#dddddd"/><text x="%.0f" y="%d" text-anchor="middle">%.0f s</text>`+"\n", at, top, at, top+height, at, top+height+18, math.Pow10(power))
	}
	for _, share := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.0f" x2="%d" y2="%.0f" stroke="#dddddd"/><text x="%d" y="%.0f" text-anchor="end">%.0f %%</text>`+"\n", left, y(share), left+width, y(share), left-8, y(share)+5, 100*share)
	}
	for i, r := range results {
		var points strings.Builder
		for step := range 201 {
			n := min(len(r.served)-1, step*len(r.served)/200)
			fmt.Fprintf(&points, "%.1f,%.1f ", x(r.served[n]), y(float64(n+1)/float64(len(r.served))))
		}
		thick := 1.5
		if i == len(results)-1 {
			thick = 3
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"/>`+"\n", points.String(), colours[i%len(colours)], thick)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s: all in %.0f s, %d refused</text>`+"\n",
			left, top+height+36+20*i, colours[i%len(colours)], left+22, top+height+42+20*i, r.name, r.all.Seconds(), r.refused)
	}
	return b.String() + "</svg>\n"
}

func fleetCommand() *cobra.Command {
	var out string
	var terminals int
	cmd := &cobra.Command{
		Use:     "fleet",
		Short:   "A model of a country's terminals that come back after an outage, with its plot",
		Example: "  bench fleet --out bench-out",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if terminals < 1 {
				return cli.Usagef("--terminals %d: want 1 or more", terminals)
			}
			_, err := fleet(out, terminals, cmd.OutOrStdout())
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "bench-out", "`folder` for fleet.txt and fleet.svg")
	cmd.Flags().IntVar(&terminals, "terminals", 30_000, "how many terminals there are")
	return cmd
}
