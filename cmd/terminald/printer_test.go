package main

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/validate"
)

// TestSlipDroppedFromThePrinterIsADuplicataNext is the real program on ports, with a
// technician's own profile and a logo: the roll ends inside a slip, the slip is dropped,
// and what comes out after that is marked.
func TestSlipDroppedFromThePrinterIsADuplicataNext(t *testing.T) {
	s := openShop(t)
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 200, 40))); err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer(`profile = "epson-tm-t20"`, "profile = \"till\"\nprofiles = \"printers.toml\"", `shop.name = "Tabac"`, "shop.name = \"Tabac\"\nshop.logo = \"logo.png\"").Replace(shopConfig)
	for name, text := range map[string]string{"logo.png": logo.String(), "terminald.toml": config,
		"printers.toml": "[[printer]]\nname = \"till\"\nlike = \"epson-tm-t20\"\npage = \"WPC1252\"\n"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
	ctx := deadline(t)
	s.Paper.LoadPaper(4)
	paid := s.pay(t, s.scan(t, s.codes["2000"][0]))
	for {
		v, err := s.Client.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if v.Receipt != nil && v.Receipt.Holding != nil && v.Receipt.Holding.Code == "P2" && len(s.Paper.Uncut().Lines) == 4 {
			break
		}
	}
	if err := s.Client.RecoverPrinter(ctx); err == nil || !strings.Contains(err.Error(), "P2") {
		t.Errorf("recover from no paper: %v", err)
	}
	if err := s.Client.ClearPrinter(ctx); err != nil {
		t.Fatal(err)
	}
	for {
		last, err := s.Client.Last(ctx)
		if err != nil || len(last) != 1 {
			t.Fatalf("%+v, %v", last, err)
		}
		if last[0].Print == validate.Unknown {
			break
		}
	}
	s.Paper.LoadPaper(0)
	if _, err := s.Client.Reprint(ctx, paid.Receipt.Number); err != nil {
		t.Fatal(err)
	}
	torn, err := s.Paper.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := s.Paper.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if text := torn.Text(); strings.Contains(text, "registre") || !strings.Contains(text, "[image 200x40]") {
		t.Errorf("the dropped slip:\n%s", text)
	}
	if text := copied.Text(); !strings.Contains(text, "DUPLICATA 1") || !strings.Contains(text, paid.Receipt.Number) || !strings.Contains(text, "[image 200x40]") {
		t.Errorf("the next:\n%s", text)
	}
	if errs := s.Paper.Errors(); len(errs) > 0 && !strings.Contains(errs[0].Error(), "control byte 00") {
		t.Errorf("the printer did not understand %v", errs)
	}
}

// TestDrawerAtThePrinterOpensAtThePaymentAlone is the real program on ports: one pulse
// before the slip, none at a check, for a copy, or for a slip that an earlier run left.
func TestDrawerAtThePrinterOpensAtThePaymentAlone(t *testing.T) {
	s := openShop(t)
	configured := func(keys string) {
		config := strings.Replace(shopConfig, "[policy]", keys+"\n[policy]", 1)
		if err := os.WriteFile(filepath.Join(s.Dir, "terminald.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := deadline(t)
	for keys, named := range map[string]string{"drawer_pin = 3": "printer.drawer_pin", "drawer_pin = 2\ndrawer_pulse_ms = 600": "printer.drawer_pulse_ms",
		"drawer_pin = 2\n[gpio]\ndrawer = { pin = \"GPIO22\" }": "printer.drawer_pin, gpio.drawer"} {
		configured(keys)
		if err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: %v", keys, err)
		}
	}
	configured("drawer_pin = 5\ndrawer_pulse_ms = 150")
	s.start(t)
	paid := s.pay(t, s.scan(t, s.codes["2000"][0]))
	if _, err := s.Paper.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if got := s.Paper.Pulses(); len(got) != 1 || got[0].Pin != 1 || got[0].On != 150*time.Millisecond || got[0].Slips+got[0].Lines != 0 {
		t.Fatalf("pulses %+v", got)
	}
	for {
		if last, err := s.Client.Last(ctx); err != nil || len(last) != 1 {
			t.Fatalf("%+v, %v", last, err)
		} else if last[0].Print == validate.Printed {
			break
		}
	}
	if _, err := s.Client.Reprint(ctx, paid.Receipt.Number); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Paper.Next(ctx); err != nil {
		t.Fatal(err)
	}
	s.Paper.LoadPaper(4)
	s.pay(t, s.scan(t, s.codes["2000"][1]))
	for {
		if v, err := s.Client.View(ctx); err != nil {
			t.Fatal(err)
		} else if v.Receipt != nil && v.Receipt.Holding != nil {
			break
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Paper.LoadPaper(0)
	s.start(t)
	for range 2 { // the torn one and its copy
		if _, err := s.Paper.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Paper.Pulses(); len(got) != 2 {
		t.Errorf("%d pulses for two payments, a copy and a restart", len(got))
	}
}

// TestClosingCutOffByAKillIsCutOffThePaperToo: no entry says that a closing's slip is being
// printed, and its piece must not hang on the next customer's.
func TestClosingCutOffByAKillIsCutOffThePaperToo(t *testing.T) {
	s := openShop(t)
	s.start(t)
	ctx := deadline(t)
	s.Paper.LoadPaper(4)
	if _, err := s.Client.X(ctx, validate.DayClosing, true); err != nil {
		t.Fatal(err)
	}
	for len(s.Paper.Uncut().Lines) < 4 {
		if _, err := s.Client.View(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Paper.PowerCycle() // else it would go on with what it holds
	s.Paper.LoadPaper(0)
	s.start(t)
	paid := s.pay(t, s.scan(t, s.codes["2000"][0]))
	torn, err := s.Paper.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slip, err := s.Paper.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(torn.Text(), paid.Receipt.Number) || !strings.Contains(slip.Text(), paid.Receipt.Number) {
		t.Errorf("the torn piece:\n%s\nthe slip:\n%s", torn.Text(), slip.Text())
	}
}
