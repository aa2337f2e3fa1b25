package health

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestScrubHidesWhatMayBeASecret: forms of every secret that a terminal knows.
func TestScrubHidesWhatMayBeASecret(t *testing.T) {
	for name, secret := range map[string]string{
		"ticket, 40 digits":      "1003990000123017419283746501928374650174",
		"ticket in groups":       "1003 9900 0012 3017 4192 8374 6501",
		"ticket with hyphens":    "10039-90000-12301-74192-83746",
		"public code of a back":  "200399000012301774",
		"scanned part":           "0399000012301",
		"key of a note":          "PRIVATE+KEY+lottery+9b6a1d3c+AXk9Jd8sPq2Lm5Vb7Nc1Rt4Yz6Wx0Ks3Hf8Gg2Dd5Ee",
		"pem":                    "-----BEGIN PRIVATE KEY----- MIGHAgEAMBMGByqGSM49",
		"pin's hash":             "$argon2id$v=19$m=65536,t=3,p=1$c2FsdHNhbHQ$u8Hk2Lm5Vb7Nc1Rt4Yz6Wx0Ks3Hf",
		"pepper":                 "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"base64 in pieces":       "u8Hk2Lm5Vb7Nc1R/4Yz6Wx0Ks3Hf8/g2Dd5EeAa9Pp3/Qq7Z=",
		"base64":                 "u8Hk2Lm5Vb7Nc1Rt4Yz6Wx0Ks3Hf8Gg2Dd5Ee/Aa9=",
		"setting":                `name = "swordfish-and-more"`,
		"enrolment code":         "ABCD-EFGH-IJKL-MNOP-QRST-UVWX-YZ23-4567",
		"password in an address": "max:hunter2222@c",
	} {
		for _, around := range []string{"%", "open %: no such file", "code=%", "/var/lib/%/x", `"%"`, "(%)"} {
			text := strings.ReplaceAll(around, "%", secret)
			got := Scrub(text)
			for _, piece := range []string{secret, secret[:min(len(secret), 24)], secret[len(secret)-12:]} {
				if strings.Contains(got, piece) {
					t.Errorf("%s: %q stays in %q", name, piece, got)
				}
			}
		}
	}
}

func TestScrubKeepsWhatSupportNeeds(t *testing.T) {
	for _, text := range []string{
		"open /var/lib/grattoir/manifests: no such file or directory",
		"/dev/serial/by-id/usb-PSC_Scanner-if00 vanished within a second of opening, 3 times in a row",
		"ticket 00399-0000123-017/..74 was checked", "ledger number 1-000017", "2026-11-30 11:57:20.245 UTC", "2026-11-30T11:57:20Z",
		"dial tcp 192.168.100.200:8443: connect: connection refused", "code=L6", "central.example:8443", "certificate-verify-failed",
	} {
		if got := Scrub(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzScrubHidesLongNumbers(f *testing.F) {
	f.Add("a 1003990000123017 b", "x")
	f.Add("time=1 ", "/")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "100399000012301741928374"
		if got := Scrub(before + secret + after); strings.Contains(got, secret) {
			t.Errorf("%q stays in %q", secret, got)
		}
		_, _ = safeLine(before + after)
	})
}

func TestLogKeepsKnownKeysOfTerminaldsLinesAlone(t *testing.T) {
	log := `Nov 30 11:44:54 shop terminald[123]: time=2026-11-30T11:44:54.000Z level=INFO msg=checked ticket=00399-0000123-017 outcome=pay pin=4711
some other program: password hunter2
and another
time=2026-11-30T11:44:55.000Z level=ERROR msg="slip held" err="open \"/x\": code 1003990000123017419283746501928374650174" operator=marie
time=2026-11-30T11:44:56.000Z level=ERROR msg="half a line
`
	got, err := SafeLog(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := `time=2026-11-30T11:44:54.000Z level="INFO" msg="checked" ticket="00399-0000123-017" outcome="pay" pin=[left out]
[2 lines that are not terminald's were left out]
time=2026-11-30T11:44:55.000Z level="ERROR" msg="slip held" err="open \"/x\": code [hidden]" operator=[left out]
[1 line that is not terminald's was left out]
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLogIsBoundedFromItsEnd(t *testing.T) {
	var log bytes.Buffer
	for range 40000 {
		log.WriteString("time=2026-11-30T11:44:54.000Z level=INFO msg=early\n")
	}
	log.WriteString("time=2026-11-30T11:44:54.000Z level=INFO msg=last\n")
	got, err := SafeLog(&log)
	if err != nil || len(got) > MaxPart || !bytes.Contains(got, []byte("early")) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if !bytes.Contains(got, []byte("last")) {
		t.Error("the end is missing")
	}
}

func TestBundleIsTheSameForTheSameParts(t *testing.T) {
	write := func(names ...string) []byte {
		var b Bundle
		for _, n := range names {
			if err := b.AddJSON(n, map[string]int{"b": 1, "a": 2}); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		list, err := b.Write(&out, "bundle", time.Date(2026, 11, 30, 12, 0, 0, 7, time.UTC))
		if err != nil || len(list) != 3 || list[0].Name != "README.txt" || list[1].Name != PartDoctor {
			t.Fatalf("%+v, %v", list, err)
		}
		return out.Bytes()
	}
	if !bytes.Equal(write(PartDoctor, PartVersions), write(PartVersions, PartDoctor)) {
		t.Error("the order in which parts were added shows")
	}
}

func TestBundleTakesNoOtherFile(t *testing.T) {
	var b Bundle
	if err := b.AddJSON("identity.json", "x"); err == nil {
		t.Error("a file that is on no list was taken")
	}
	if err := b.AddJSON(PartStatus, strings.Repeat("x", MaxPart)); err == nil {
		t.Error("a part that is too large was taken")
	}
}
