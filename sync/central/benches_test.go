package central

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// TestBenchRecordIsKeptOnlyOfTheDeviceThatSignedIt, once however often it is told, and
// whatever came is answered, so that it is not told for ever.
func TestBenchRecordIsKeptOnlyOfTheDeviceThatSignedIt(t *testing.T) {
	onEachStore(t, testBenchRecordIsKept)
}

func testBenchRecordIsKept(t *testing.T, w *world) {
	sign := func(d *device) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) {
			sum := sha256.Sum256(text)
			return ecdsa.SignASN1(rand.Reader, d.key, sum[:])
		}
	}
	d, other := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	record := func(terminal, at string, by *device) *wire.BenchNote {
		n, err := wire.NewBench(wire.Bench{Terminal: terminal, At: at, OK: true, Program: "grattoir 1", Parts: map[string]string{"scanner": "A1"},
			Checks: []wire.BenchCheck{{Code: "B1", Name: "name", State: "ok", Detail: "as it should be"}}}, sign(by))
		if err != nil {
			t.Fatal(err)
		}
		return &n
	}
	early, late := wire.FormatTime(noon), wire.FormatTime(noon.Add(time.Hour))
	first, second := record("T-1", early, d), record("T-1", late, d)
	changed := *first
	changed.Text = strings.Replace(changed.Text, `"ok":true`, `"ok":false`, 1)
	for name, n := range map[string]*wire.BenchNote{"another key's": record("T-1", early, other), "another terminal's": record("T-2", early, d), "changed": &changed,
		"no record": {Text: "hello", Signature: []byte("x")}} {
		a, e := d.hello(t, func(h *wire.Hello) { h.Bench = n })
		sum := sha256.Sum256([]byte(n.Text))
		if e != nil || a.Bench != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: answered %q: %v", name, a.Bench, e)
		}
	}
	if list, err := w.Benches(t.Context(), "T-1"); err != nil || len(list) != 0 {
		t.Fatalf("kept: %+v %v", list, err)
	}
	for _, n := range []*wire.BenchNote{first, first, second, nil} {
		if _, e := d.hello(t, func(h *wire.Hello) { h.Bench = n }); e != nil {
			t.Fatal(e)
		}
		w.clock.advance(time.Second)
	}
	list, err := w.Benches(t.Context(), "T-1")
	if err != nil || len(list) != 2 || list[0].Note.Text != second.Text || !list[1].Bench.OK || list[1].Bench.Parts["scanner"] != "A1" || list[0].Fingerprint == "" {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := w.Benches(t.Context(), "T-3"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}
