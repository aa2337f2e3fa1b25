package update_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/firmware/update"
	"grattoir/firmware/update/raucfake"
)

// onBus gives RAUC's client a bus of its own with a machine on it.
func onBus(t *testing.T, m *raucfake.Machine) *update.Rauc {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus") // a socket's path is at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address, stop, err := raucfake.Bus(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	stopRauc, err := m.Serve(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stopRauc() })
	r, err := update.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestUpdatesGoOverTheBus takes a good and a sick update through the wire protocol.
func TestUpdatesGoOverTheBus(t *testing.T) {
	w := testWorld(t)
	w.bus = onBus(t, w.m)
	w.mustOffer(t, w.stick, bundle{number: 11})
	if s := w.settle(); last(s) != "good 11" || len(s.Slots) != 2 {
		t.Fatalf("%s, slots %v", last(s), s.Slots)
	}
	w.sick[12] = true
	w.mustOffer(t, w.central, bundle{number: 12})
	if s := w.settle(); last(s) != "rolled-back 12" || w.m.Running().Number != 11 {
		t.Fatalf("%s, %d runs", last(s), w.m.Running().Number)
	}
	w.mustOffer(t, w.central, bundle{number: 13, foreign: true})
	if s := w.settle(); last(s) != "refused 13" || !strings.Contains(s.Last.Reason, "signature verification failed") {
		t.Fatalf("%s: %s", last(s), s.Last.Reason)
	}
	w.mustOffer(t, w.central, bundle{number: 14, tampered: true})
	if s := w.settle(); last(s) != "failed 14" || !strings.Contains(s.Last.Reason, "data block 17") {
		t.Fatalf("%s: %s", last(s), s.Last.Reason)
	}
}

func TestABusWithoutRaucIsNoRefusedBundle(t *testing.T) {
	m := raucfake.New(board, "1.0.0", 10)
	r := onBus(t, m)
	path := filepath.Join(t.TempDir(), "x.raucb")
	if err := os.WriteFile(path, raucfake.Bundle{Board: board, Version: "1", Number: 11, Foreign: true}.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Info(t.Context(), path); !errors.Is(err, update.ErrBundle) {
		t.Errorf("a stranger's bundle: %v", err)
	}
	board2, err := r.Compatible(t.Context())
	if err != nil || board2 != board {
		t.Errorf("compatible %q, %v", board2, err)
	}
	if err := r.Mark(t.Context(), "nonsense", update.MarkGood); err == nil {
		t.Error("a slot that is none was marked")
	}
	dir := t.TempDir()
	address, stop, err := raucfake.Bus(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nobody, err := update.Dial(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if _, _, err := nobody.Info(t.Context(), path); err == nil || errors.Is(err, update.ErrBundle) {
		t.Errorf("with no RAUC: %v", err)
	}
}
