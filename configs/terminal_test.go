package configs

import (
	"strings"
	"testing"
)

func TestShippedTerminalConfigurationLoads(t *testing.T) {
	c, err := ParseTerminal("terminald.toml", TerminalExample)
	if err != nil {
		t.Fatal(err)
	}
	if c.AcceptScaled {
		t.Error("the shipped example pays demonstration tickets")
	}
}

func TestTerminalConfigurationNamesEveryFault(t *testing.T) {
	_, err := ParseTerminal("t.toml", []byte("language = \"de\"\n[screen]\nlisten = \"0.0.0.0:80\"\n[policy]\nshop_limit_minor = -1\n"))
	for _, want := range []string{"name", `language = "de"`, "loopback", "central.url", "stand_alone", "policy.shop_limit_minor = -1", "printer.path"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q: %v", want, err)
		}
	}
}

func TestScannerIsReadWithAnyEndMarkAndSentNothingByDefault(t *testing.T) {
	text := string(TerminalExample)
	short := text
	for _, key := range []string{"suffix =", "prefix =", "idle_ms =", "control ="} {
		at := strings.Index(short, "\n"+key)
		if at < 0 {
			t.Fatalf("the example lacks %s", key)
		}
		end := at + 1 + strings.IndexByte(short[at+1:], '\n')
		short = short[:at] + short[end:]
	}
	for _, text := range []string{text, short} {
		c, err := ParseTerminal("t.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Scanner; s.Suffix != "any" || s.Control != "none" || s.Prefix != "" || s.IdleMS != 0 {
			t.Errorf("scanner %+v", s)
		}
	}
	_, err := ParseTerminal("t.toml", []byte(strings.Replace(text, "\ncontrol =", "\ncontrl =", 1)))
	if err == nil || !strings.Contains(err.Error(), "control") {
		t.Error(err)
	}
}

func TestMisspelledLimitIsNoLimitNowhere(t *testing.T) {
	text := strings.Replace(string(TerminalExample), "shop_limit_minor", "shop_limt_minor", 1)
	_, err := ParseTerminal("t.toml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "t.toml:") || !strings.Contains(err.Error(), "shop_limit_minor") {
		t.Fatal(err)
	}
}

func TestShippedPinsAreOptionalAndLoadWhenTheyAreTakenIn(t *testing.T) {
	c, err := ParseTerminal("terminald.toml", TerminalExample)
	if err != nil || c.GPIO != (GPIO{DrawerPulseMS: 200, PowerOffMS: 1000, PowerSettleMS: 500}) {
		t.Fatalf("%+v, %v", c.GPIO, err)
	}
	text := string(TerminalExample)
	for _, part := range []string{"busy", "power", "drawer", "win", "refuse", "fault", "buzzer", "tamper", "pay"} {
		taken := strings.Replace(text, "\n# "+part+" = {", "\n"+part+" = {", 1)
		if taken == text {
			t.Errorf("the example does not show %s", part)
		}
		text = taken
	}
	if c, err = ParseTerminal("terminald.toml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if c.GPIO.Pay != (InputPin{Pin: "GPIO21", ActiveLow: true}) || c.GPIO.Drawer != (OutputPin{Pin: "GPIO22"}) || c.GPIO.Tamper.Pull != "up" {
		t.Errorf("%+v", c.GPIO)
	}
	wrong := strings.Replace(text, `pay = { pin = "GPIO21", active_low = true }`, `pay = { pin = "GPIO21", actve_low = true }`, 1)
	if _, err := ParseTerminal("t.toml", []byte(wrong)); err == nil || !strings.Contains(err.Error(), "active_low") {
		t.Error("a misspelled key:", err)
	}
}
