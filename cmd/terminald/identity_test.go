package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/device/control"
	"grattoir/validate"
)

// TestIdentifiedWinnerIsReadAtCentralByTwoPersons is the whole way with the real programs:
// a winner is identified at the counter, the sealed record goes up by itself, one person
// asks for it and reads it once another one agreed, with a key that lies on neither machine.
func TestIdentifiedWinnerIsReadAtCentralByTwoPersons(t *testing.T) {
	l := openLinked(t)
	keys := filepath.Join(t.TempDir(), "keys")
	if out, err := exec.Command(l.program, "key", "new", "--name", "register", "--register", "--out", keys).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := filepath.Join(l.Dir, "terminald.toml")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := "register.key = \"" + filepath.Join(keys, "register.pub") + "\"\n" + strings.Replace(string(config), "claim_days = 30", "claim_days = 30\nidentity_total_over_minor = 3000", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 && st.Register == nil })
	batch := l.batch(t, l.codes["2000"][0], l.codes["2000"][1])
	winner := &validate.Identification{Surname: "Martin", FirstNames: "Jeanne", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, 29200 Brest",
		Document: "passport", Number: "12AB34567", IssuedBy: "préfecture du Finistère"}
	if paid, err := l.Client.PayBatch(ctx, batch.ID, true, winner); err != nil || !paid.Paid {
		t.Fatalf("%+v %v", paid, err)
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 })

	as := func(operator string, args ...string) ([]byte, int) { // who shows a password
		cmd := exec.Command(l.program, append(args, "--data", l.central.Dir)...)
		cmd.Stdin = strings.NewReader("a password of " + operator + "\n")
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return out, exit.ExitCode()
		}
		return out, 0
	}
	for _, name := range []string{"claire", "denis"} {
		if _, code := as(name, "user", "add", name, "--role", "security"); code != 0 {
			t.Fatalf("user %s: exit %d", name, code)
		}
	}
	for { // the record is a lane of its own
		_, code := as("claire", "identity", "ask", "T-1", "1-000001", "--operator", "claire", "--reason", "test")
		if code == 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the record does not arrive")
		}
	}
	show := []string{"identity", "show", "1", "--operator", "claire", "--key", filepath.Join(keys, "register.key")}
	for what, refused := range map[string]func() ([]byte, int){
		"read with nobody's agreement":      func() ([]byte, int) { return as("claire", show...) },
		"read with another's password":      func() ([]byte, int) { return as("denis", show...) },
		"agreed to by the one who asked":    func() ([]byte, int) { return as("claire", "identity", "agree", "1", "--operator", "claire") },
		"agreed to with another's password": func() ([]byte, int) { return as("claire", "identity", "agree", "1", "--operator", "denis") },
	} {
		if out, code := refused(); code != 4 || len(out) != 0 {
			t.Fatalf("%s: %d\n%s", what, code, out)
		}
	}
	if _, code := as("denis", "identity", "agree", "1", "--operator", "denis"); code != 0 {
		t.Fatalf("agree: exit %d", code)
	}
	out, code := as("claire", show...)
	for _, want := range []string{"Martin, Jeanne", "born 1970-05-12, Brest", "passport 12AB34567", "terminal T-1"} {
		if code != 0 || !strings.Contains(string(out), want) {
			t.Fatalf("exit %d, without %q:\n%s", code, want, out)
		}
	}
	var audit struct {
		Acts []struct{ Act, Operator string }
	}
	l.run(t, &audit, "identity", "audit")
	if len(audit.Acts) != 3 || audit.Acts[0].Act != "ask" || audit.Acts[1].Operator != "denis" || audit.Acts[2].Act != "open" || audit.Acts[2].Operator != "claire" {
		t.Fatalf("%+v", audit)
	}
	var erased struct{ Erased int }
	if l.run(t, &erased, "identity", "erase"); erased.Erased != 0 {
		t.Fatal("erased before its term")
	}
	logs, err1 := os.ReadFile(l.LogPath())
	other, err2 := os.ReadFile(l.central.Dir + ".log")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"Martin", "12AB34567", "rue de Siam"} {
		if strings.Contains(string(logs)+string(other), secret) {
			t.Errorf("a log has %q", secret)
		}
	}
}
