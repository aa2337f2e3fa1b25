package scanner

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

func linkTo(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// counterTop is a terminal with its scanner in and nothing that disturbs it.
func counterTop(more ...fstest.MapFS) fstest.MapFS {
	tree := fstest.MapFS{
		"proc/1/comm":                   file("systemd\n"),
		"proc/self/comm":                file("brltty\n"), // no number, so no process of its own
		"dev/serial/by-id/usb-scanner":  linkTo("../../ttyACM0"),
		"dev/ttyACM0":                   file(""),
		"sys/class/tty/ttyACM0/dev":     file("166:0\n"),
		"run/udev/data/c166:0":          file("S:serial/by-id/usb-scanner\nE:ID_VENDOR_ID=0C2E\nE:ID_MODEL_ID=0B6A\n"),
		"usr/lib/udev/rules.d/60.rules": file("# ENV{ID_MM_DEVICE_IGNORE}=\"1\"\nKERNEL==\"sd*\", ENV{X}=\"1\"\n"),
	}
	for _, m := range more {
		maps.Copy(tree, m)
	}
	return tree
}

func TestIntrudersAreNamedWithWhatToDo(t *testing.T) {
	modem := fstest.MapFS{"proc/412/comm": file("ModemManager\n")}
	rule := func(name, text string) fstest.MapFS { return fstest.MapFS{name: file(text)} }
	const link = "/dev/serial/by-id/usb-scanner"
	for _, c := range []struct {
		name string
		tree fstest.MapFS
		port string
		want []string // names
		hint string
	}{
		{"a quiet counter", counterTop(), link, nil, ""},
		{"ModemManager runs (rusefi#4359)", counterTop(modem), link, []string{"ModemManager"}, `ATTRS{idVendor}=="0c2e", ATTRS{idProduct}=="0b6a", ENV{ID_MM_DEVICE_IGNORE}="1"`},
		{"and no port is named", counterTop(modem), "", []string{"ModemManager"}, "ttyACM*"},
		{"but udev has it pass over the port", counterTop(modem, rule("run/udev/data/c166:0", "E:ID_MM_DEVICE_IGNORE=1\n")), link, nil, ""},
		{"or a rule names the scanner's maker", counterTop(modem, rule("etc/udev/rules.d/60-scanner.rules", "ACTION==\"add\", ATTRS{idVendor}==\"0c2e\", \\\n  ENV{ID_MM_DEVICE_IGNORE}=\"1\"\n")), link, nil, ""},
		{"or the kind of port", counterTop(modem, rule("etc/udev/rules.d/60-scanner.rules", `KERNEL=="ttyACM*", ENV{ID_MM_DEVICE_IGNORE}="1"`)), link, nil, ""},
		{"a rule for another device is none", counterTop(modem, rule("usr/lib/udev/rules.d/77-mm.rules", `ATTRS{idVendor}=="1234", ENV{ID_MM_DEVICE_IGNORE}="1"`)), link, []string{"ModemManager"}, ""},
		{"another product of the maker", counterTop(modem, rule("usr/lib/udev/rules.d/77-mm.rules", `ATTRS{idVendor}=="0c2e", ATTRS{idProduct}=="9999", ENV{ID_MM_DEVICE_IGNORE}="1"`)), link, []string{"ModemManager"}, ""},
		{"a rule that takes it back", counterTop(modem, rule("etc/udev/rules.d/60.rules", `KERNEL=="ttyACM*", ENV{ID_MM_DEVICE_IGNORE}="0"`)), link, []string{"ModemManager"}, ""},
		{"a pseudo terminal is nobody's", counterTop(modem, fstest.MapFS{"home/shop/scanner": linkTo("/dev/pts/3"), "dev/pts/3": file("")}), "/home/shop/scanner", nil, ""},
		{"brltty runs (ubuntu-rockchip#621)", counterTop(fstest.MapFS{"proc/9/comm": file("brltty\n")}), link, []string{"brltty"}, "remove the package brltty"},
		{"brltty starts when the scanner comes", counterTop(rule("usr/lib/udev/rules.d/85-brltty.rules", "ENV{PRODUCT}==\"c2e/b6a/*\", GOTO=\"x\"\n# 1a86\nATTRS{idVendor}==\"0c2e\", ENV{BRLTTY}=\"x\"\n")), link, []string{"brltty"}, "remove"},
		{"brltty takes common chips, scanner unknown (arduino-ide#1788)", counterTop(rule("usr/lib/udev/rules.d/85-brltty.rules", `ENV{PRODUCT}=="1a86/7523/*", ENV{BRLTTY}="x"`)), "/dev/serial/by-id/none", []string{"brltty"}, "CH340"},
		{"brltty takes another chip", counterTop(rule("usr/lib/udev/rules.d/85-brltty.rules", `ENV{PRODUCT}=="1a86/7523/*", ENV{BRLTTY}="x"`)), link, nil, ""},
		{"brltty's rule is switched off", counterTop(rule("usr/lib/udev/rules.d/85-brltty.rules", "1a86"), fstest.MapFS{"etc/udev/rules.d/85-brltty.rules": file("")}), "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Intruders(c.tree, c.port)
			must(t, err)
			var names []string
			for _, i := range got {
				names = append(names, i.Name)
				if i.Found == "" || !strings.Contains(i.Hint, c.hint) {
					t.Errorf("%+v", i)
				}
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("got %v, want %v", names, c.want)
			}
		})
	}
}

func TestIntrudersSayWhenTheyCannotTell(t *testing.T) {
	if _, err := Intruders(fstest.MapFS{}, ""); err == nil {
		t.Error("a system without /proc was called quiet")
	}
}

func TestIntrudersReadThisSystem(t *testing.T) {
	if _, err := Intruders(os.DirFS("/"), "/dev/ttyS0"); err != nil {
		t.Error(err)
	}
}

// FuzzUdevRules: a rule file is anybody's text.
func FuzzUdevRules(f *testing.F) {
	f.Add(`KERNEL=="tty[", ENV{ID_MM_DEVICE_IGNORE}="1"`, "166:0")
	f.Add("ATTRS{idVendor}==\"0c2e\", \\\nENV{ID_MM_PORT_IGNORE}=\"1\"", "../../x")
	f.Fuzz(func(t *testing.T, rule, number string) {
		tree := counterTop(fstest.MapFS{"proc/2/comm": file("ModemManager"), "etc/udev/rules.d/1.rules": file(rule), "sys/class/tty/ttyACM0/dev": file(number)})
		got, err := Intruders(tree, "/dev/ttyACM0")
		if err == nil && len(got) == 0 && !strings.Contains(rule, "ID_MM_") && !strings.Contains(number, "166:0") {
			t.Errorf("ModemManager was overlooked")
		}
	})
}
