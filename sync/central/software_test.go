package central

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

func bundleFor(board, version string, number int64) (Bundle, []byte) {
	raw := bytes.Repeat([]byte(board+version), 100)
	sum := sha256.Sum256(raw)
	return Bundle{Board: board, Version: version, Number: number, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(raw)), Manifest: "a manifest of " + version + "\n", Notes: "faster"}, raw
}

func (w *world) publish(t *testing.T, board, version string, number int64) Bundle {
	t.Helper()
	b, raw := bundleFor(board, version, number)
	if err := w.PublishUpdate(t.Context(), b, bytes.NewReader(raw), "anne"); err != nil {
		t.Fatal(err)
	}
	return b
}

// runs says hello with a terminal's software and gives what central offers, "" for nothing.
func (d *device) runs(t *testing.T, number int64, u *wire.UpdateState) string {
	t.Helper()
	var a wire.HelloAnswer
	h := wire.Hello{Protocol: 1, Software: &wire.Software{Board: "grattoir-pi", Version: fmt.Sprintf("1.%d", number), Number: number, Update: u}}
	if e := post(t, d.client, wire.PathHello, h, &a); e != nil {
		t.Fatal(e)
	}
	if a.Update == nil {
		return ""
	}
	return a.Update.Version
}

// TestRolloutReachesWhomItIsForAndHaltsByItself follows a version from its publication over
// a canary that fails, and its successor to all.
func TestRolloutReachesWhomItIsForAndHaltsByItself(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		var fleet []*device
		for n := range 4 {
			fleet = append(fleet, w.enrolled(t, fmt.Sprintf("T-%d", n+1)))
		}
		w.enrolled(t, "T-mute")
		if err := w.SetRegion(ctx, "T-4", "sud"); err != nil {
			t.Fatal(err)
		}
		b := w.publish(t, "grattoir-pi", "1.11", 11)
		other, raw := bundleFor("grattoir-pi", "1.11", 11)
		other.SHA256, raw = strings.Repeat("ab", 32), raw[:10]
		wantErr(t, w.PublishUpdate(ctx, other, bytes.NewReader(raw), "anne"), ErrRefused)
		older, raw := bundleFor("grattoir-pi", "1.9", 9)
		wantErr(t, w.PublishUpdate(ctx, older, bytes.NewReader(raw), "anne"), ErrRefused)
		for n, d := range fleet {
			if got := d.runs(t, 10, nil); got != "" {
				t.Errorf("terminal %d is offered %s, which is rolled to nobody", n+1, got)
			}
		}
		wantErr(t, w.Roll(ctx, "1.11", Rollout{Canaries: 5}, "anne"), ErrRefused) // four could take it
		wantErr(t, w.Roll(ctx, "1.12", Rollout{Canaries: 1}, "anne"), ErrNotFound)
		wantErr(t, w.Roll(ctx, "1.11", Rollout{Canaries: 1, Percent: 5}, "anne"), ErrRefused)
		if err := w.Roll(ctx, "1.11", Rollout{Canaries: 2, MaxFailed: 1}, "anne"); err != nil {
			t.Fatal(err)
		}
		var canaries []*device
		for _, d := range fleet {
			if d.runs(t, 10, nil) == "1.11" {
				canaries = append(canaries, d)
			}
		}
		if len(canaries) != 2 {
			t.Fatalf("%d canaries, want 2", len(canaries))
		}
		step := func(s wire.UpdateStep, why string) *wire.UpdateState {
			return &wire.UpdateState{Version: "1.11", Number: 11, SHA256: b.SHA256, Step: s, Reason: why}
		}
		counts := func(version string, want map[string]int) {
			t.Helper()
			p, err := w.UpdateProgress(ctx, version)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for s, n := range p.Counts {
				if sum += n; n != want[s] {
					t.Errorf("%s: %d terminals are %s, want %d", version, n, s, want[s])
				}
			}
			if sum != 5 || len(p.Terminals) != 5 {
				t.Errorf("%s: the states add up to %d of 5", version, sum)
			}
		}
		counts("1.11", map[string]int{Offered: 2, NeverOffered: 2, NotTold: 1})
		canaries[0].runs(t, 10, step(wire.UpdateDownloading, ""))
		canaries[1].runs(t, 11, step(wire.UpdateTrying, ""))
		counts("1.11", map[string]int{"downloading": 1, "trying": 1, NeverOffered: 2, NotTold: 1})

		// One failure is allowed, and is not offered again; the second halts.
		if got := canaries[0].runs(t, 10, step(wire.UpdateRolledBack, "the printer is gone")); got != "" {
			t.Errorf("it is offered %s again", got)
		}
		if list, err := w.Updates(ctx); err != nil || list[0].State != UpdateRolling {
			t.Fatalf("%+v, %v", list, err)
		}
		canaries[0].runs(t, 10, step(wire.UpdateRolledBack, "the printer is gone")) // told again, it counts once
		canaries[1].runs(t, 10, step(wire.UpdateFailed, "data block 17"))
		list, err := w.Updates(ctx)
		if err != nil || list[0].State != UpdateHalted || !strings.Contains(list[0].Why, "2 terminals") {
			t.Fatalf("%+v, %v", list, err)
		}
		wantErr(t, w.Roll(ctx, "1.11", Rollout{Percent: 100}, "anne"), ErrRefused)

		// Its successor goes to a region, then to all.
		c := w.publish(t, "grattoir-pi", "1.12", 12)
		if err := w.Roll(ctx, "1.12", Rollout{Region: "sud"}, "anne"); err != nil {
			t.Fatal(err)
		}
		for n, want := range []string{"", "", "", "1.12"} {
			if got := fleet[n].runs(t, 10, nil); got != want {
				t.Errorf("terminal %d is offered %q, want %q", n+1, got, want)
			}
		}
		if err := w.HaltUpdate(ctx, "1.12", "wait", "anne"); err != nil {
			t.Fatal(err)
		}
		if got := fleet[3].runs(t, 10, nil); got != "" {
			t.Errorf("halted, it is offered %s", got)
		}
		if err := w.ResumeUpdate(ctx, "1.12", "go on", "anne"); err != nil {
			t.Fatal(err)
		}
		if err := w.Roll(ctx, "1.12", Rollout{Percent: 100}, "anne"); err != nil {
			t.Fatal(err)
		}
		for n, d := range fleet {
			if got := d.runs(t, 10, nil); got != "1.12" {
				t.Errorf("terminal %d is offered %q", n+1, got)
			}
		}
		good := &wire.UpdateState{Version: "1.12", Number: 12, SHA256: c.SHA256, Step: wire.UpdateGood}
		if got := fleet[0].runs(t, 12, good); got != "" {
			t.Errorf("it runs 1.12 and is offered %s", got)
		}
		counts("1.12", map[string]int{"good": 1, Offered: 3, NotTold: 1})
		counts("1.11", map[string]int{RunsNewer: 1, "rolled-back": 1, "failed": 1, NeverOffered: 1, NotTold: 1}) // one canary may be the first
		bundleIsServed(t, fleet[0], c)

		var acts []string
		if _, err := w.Audit(ctx, func(l AuditLine) error { acts = append(acts, l.Act+" "+l.Operator); return nil }); err != nil {
			t.Fatal(err)
		}
		want := "software-publish anne, software-roll anne, software-halt system, software-publish anne, software-roll anne, software-halt anne, software-resume anne, software-roll anne"
		if got := strings.Join(acts, ", "); got != want {
			t.Errorf("audit:\n%s\nwant\n%s", got, want)
		}
	})
}

func bundleIsServed(t *testing.T, d *device, b Bundle) {
	t.Helper()
	var text string
	if e := get(t, d.client, wire.PathUpdates+b.SHA256, &text); e != nil || text != b.Manifest {
		t.Errorf("manifest %q, %v", text, e)
	}
	req, err := http.NewRequest(http.MethodGet, "https://localhost"+wire.PathBundles+b.SHA256, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=5-9")
	r, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	part, err := io.ReadAll(r.Body)
	_, raw := bundleFor(b.Board, b.Version, b.Number)
	if err != nil || r.StatusCode != http.StatusPartialContent || string(part) != string(raw[5:10]) {
		t.Errorf("status %d, %q, %v", r.StatusCode, part, err)
	}
	wantKind(t, get(t, d.client, wire.PathBundles+strings.Repeat("0", 64), &text), wire.KindNotFound)
}
