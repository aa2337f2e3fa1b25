package console

import (
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMetricsTellWhatTheAlertsRead: each metric of docs/alerts.yml is there, with the label
// values that it names; nothing in them says which terminal or who.
func TestMetricsTellWhatTheAlertsRead(t *testing.T) {
	c, write := store(t)
	put(t, write, `INSERT INTO conflicts(terminal, epoch, seq, kind, text, line, received) VALUES('shop-0001', 1, 9, 'conflict', '', x'', ''), ('shop-0001', 1, 10, 'conflict', '', x'', ''), ('shop-0002', 1, 9, 'conflict', '', x'', '')`)
	put(t, write, `INSERT INTO conflict_acts(terminal, epoch, seq, number, state, liable, note, operator, at) VALUES('shop-0001', 1, 9, 1, 'settled', '', '', '', ''), ('shop-0001', 1, 10, 1, 'settled', '', '', '', ''), ('shop-0001', 1, 10, 2, 'open', '', '', '', '')`)
	request(t, c.API(), http.MethodGet, "/v1/nothing", nil)
	h := Metrics(c, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	text := get(t, h, "/metrics", 200)
	for _, want := range []string{`grattoir_terminals{state="late"} 1`, `grattoir_terminals{state="never-seen"} 1`, `grattoir_terminals{state="missing"} 0`, "grattoir_conflicts_open 2", `grattoir_requests_total{request="/"} 1`,
		`grattoir_requests_refused_total{request="/",kind="not-found"} 1`, "grattoir_ingest_entries_total 0", `grattoir_lane_waiting{lane="claims"} 0`, `grattoir_sign_ins_total{result="wrong"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	for _, never := range []string{"shop-", "nothing", "127.0.0.1"} {
		if strings.Contains(text, never) {
			t.Errorf("they tell %q:\n%s", never, text)
		}
	}
	alerts, err := os.ReadFile("../../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`grattoir_[a-z_]+`).FindAllString(string(alerts), -1)
	if len(names) < 12 {
		t.Fatalf("%d metrics in the alerts", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(text) {
			t.Errorf("the alerts read %s, which is no metric", name)
		}
	}
	for _, m := range regexp.MustCompile(`(state|result)(?:=|!=|=~)"([^"]+)"`).FindAllStringSubmatch(string(alerts), -1) {
		for value := range strings.SplitSeq(m[2], "|") {
			if !strings.Contains(text, m[1]+`="`+value+`"`) {
				t.Errorf("the alerts read %s %q, which no metric has", m[1], value)
			}
		}
	}
	if w := request(t, h, http.MethodGet, "/metrics", func(r *http.Request) { r.Host = "central.example.org" }); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %d", w.Code)
	}
	if w := request(t, h, http.MethodPost, "/metrics", nil); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	put(t, write, "DROP TABLE conflict_acts")
	if text := get(t, h, "/metrics", 500); strings.Contains(text, "no such table") {
		t.Error("a failure shows the store's own words")
	}
}
