package control

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/device/terminal"
	"grattoir/validate/money"
)

// TestPrinterActsReachThePrinter, each its own, and a fault of the printer comes back with
// its code and in the clerk's words.
func TestPrinterActsReachThePrinter(t *testing.T) {
	var did []string
	jam := &terminal.Denied{Fault: terminal.Fault{Code: "P4", ClerkFR: "Massicot bloqué.", ClerkEN: "Cutter jammed.", Technician: "blade"}, Err: errors.New("no")}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: Handler(Options{Language: money.English, Log: slog.New(slog.DiscardHandler), Printer: PrinterActs{
		Clear:   func(context.Context) error { did = append(did, "clear"); return nil },
		Recover: func(context.Context) error { did = append(did, "recover"); return jam }}})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	defer func() { _ = server.Close(); <-done }()
	c := NewClient(path)
	if err := c.ClearPrinter(t.Context()); err != nil {
		t.Error(err)
	}
	err = c.RecoverPrinter(t.Context())
	if d, ok := errors.AsType[*terminal.Denied](err); !ok || d.Code != "P4" || d.ClerkEN != "Cutter jammed." {
		t.Errorf("got %v", err)
	}
	if err := c.printer(t.Context(), "explode"); err == nil || !strings.Contains(err.Error(), "clear or recover") {
		t.Errorf("another act: %v", err)
	}
	if strings.Join(did, " ") != "clear recover" {
		t.Errorf("did %v", did)
	}
}
