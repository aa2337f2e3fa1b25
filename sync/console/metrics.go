package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

// scrapeWithin bounds the reading of one scrape, under Prometheus' usual limit of 10 s.
const scrapeWithin = 8 * time.Second

// Metrics serves GET /metrics in Prometheus' text format to loopback. It needs no session:
// nothing in it names a terminal, a ticket or a person. docs/alerts.yml is an example of
// what to be woken by.
func Metrics(c *central.Central, now func() time.Time, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(w, "Metrics are answered under localhost or a loopback address only.", http.StatusMisdirectedRequest)
			return
		}
		text, err := scrape(r.Context(), c, now())
		if err != nil {
			if r.Context().Err() == nil {
				log.Error("metrics not made", "err", err)
			}
			http.Error(w, "The metrics could not be made: central's log says why.", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text) // an error here is the reader's connection
	})
	return mux
}

func scrape(ctx context.Context, c *central.Central, now time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeWithin)
	defer cancel()
	var text bytes.Buffer
	if err := c.WriteMetrics(ctx, &text); err != nil {
		return nil, err
	}
	counts, err := report.States(ctx, c.Reader(), now)
	if err != nil {
		return nil, err
	}
	for state, n := range counts {
		metrics.WriteGaugeUint64(&text, fmt.Sprintf("grattoir_terminals{state=%q}", state), uint64(n))
	}
	return text.Bytes(), nil
}
