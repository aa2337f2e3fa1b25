package central

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
)

// meters are what this process counts since its start, in Prometheus' text format. They
// have no terminal, shop, ticket or person in a label.
type meters struct {
	set                *metrics.Set
	entries, conflicts *metrics.Counter
}

func newMeters() meters {
	set := metrics.NewSet()
	m := meters{set: set, entries: set.NewCounter("grattoir_ingest_entries_total"), conflicts: set.NewCounter("grattoir_ingest_exceptions_total")}
	for _, result := range []string{"right", "wrong", "too-soon"} {
		set.NewCounter(signInMetric(result)) // a rate needs a counter that stands at 0
	}
	return m
}

func signInMetric(result string) string {
	return fmt.Sprintf("grattoir_sign_ins_total{result=%q}", result)
}

func (m meters) signIn(result string) { m.set.GetOrCreateCounter(signInMetric(result)).Inc() }

// request counts a request under the pattern that took it, which no client chooses.
func (m meters) request(r *http.Request) {
	m.set.GetOrCreateCounter(fmt.Sprintf("grattoir_requests_total{request=%q}", r.Pattern)).Inc()
}

func (m meters) refused(r *http.Request, kind wire.Kind) {
	m.set.GetOrCreateCounter(fmt.Sprintf("grattoir_requests_refused_total{request=%q,kind=%q}", r.Pattern, kind)).Inc()
}

// WriteMetrics writes what this process has counted, and how its queues, open conflicts and
// disk are now, in Prometheus' text format.
func (c *Central) WriteMetrics(ctx context.Context, w io.Writer) error {
	var open int64
	err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM conflicts c WHERE NOT EXISTS (SELECT 1 FROM conflict_acts a WHERE a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq AND a.state = 'settled' "+
		"AND a.number = (SELECT max(n.number) FROM conflict_acts n WHERE n.terminal = c.terminal AND n.epoch = c.epoch AND n.seq = c.seq))").Scan(&open)
	if err != nil {
		return fmt.Errorf("conflicts: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(c.opt.Dir, &disk); err != nil {
		return fmt.Errorf("disk of %s: %w", c.opt.Dir, err)
	}
	c.meters.set.WritePrometheus(w)
	metrics.WriteGaugeUint64(w, "grattoir_conflicts_open", uint64(open))
	metrics.WriteGaugeUint64(w, "grattoir_disk_free_bytes", disk.Bavail*uint64(disk.Bsize))
	metrics.WriteGaugeUint64(w, "grattoir_long_polls", uint64(max(0, c.lanes.polls.Load())))
	for _, l := range []struct {
		name string
		*lane
	}{{"claims", c.lanes.claims}, {"holds", c.lanes.holds}, {"journal", c.lanes.journal}, {"hello", c.lanes.hello}, {"feed", c.lanes.feed}, {"files", c.lanes.files}, {"identities", c.lanes.identities}, {"enrol", c.lanes.enrol}} {
		waiting, working := l.load()
		metrics.WriteGaugeUint64(w, fmt.Sprintf("grattoir_lane_waiting{lane=%q}", l.name), uint64(waiting))
		metrics.WriteGaugeUint64(w, fmt.Sprintf("grattoir_lane_working{lane=%q}", l.name), uint64(working))
	}
	return nil
}

// load tells how many requests wait in a lane and how many are worked on.
func (l *lane) load() (waiting, working int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.adm.waiting), max(0, l.adm.working)
}
