package main

import (
	"cmp"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/stationery"
	"grattoir/configs"
	"grattoir/firmware/provision"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

func provisionCommand() *cobra.Command {
	return cli.Group("provision", "Make a flashed card into one shop's terminal, with no internet, and prove that it is",
		provisionNewCommand(), provisionShowCommand(), provisionWriteCommand(), provisionApplyCommand(), provisionVerifyCommand())
}

// wanted is what provision new is told, by flags or by a row of a CSV file.
type wanted struct {
	base, name, language        string
	shopID, shopName, address   string
	enrol, central, pin         string
	alone                       []string
	network, ip, gateway, dns   string
	ssid, psk, pskFile, country string
	proxy                       string
	scannerPath, scannerControl string
	scannerBaud, printerBaud    int
	printerPath, printerProfile string
	serial                      int64
	signOn, scaled              bool
}

// flags are the settings, which are a CSV file's columns too.
func (n *wanted) flags(f *pflag.FlagSet) {
	f.StringVar(&n.base, "base", "", "terminald's configuration to begin with, a `file`: limits, pins and all else that no flag says (the shipped example)")
	f.StringVar(&n.name, "name", "", "the terminal's `name`, as central has it")
	f.StringVar(&n.language, "language", "fr", "first `language` of screens and slips, fr or en")
	f.StringVar(&n.shopID, "shop-id", "", "`shop` of central's reports; without it, a shop of its own")
	f.StringVar(&n.shopName, "shop-name", "", "`name` of the shop, on slips")
	f.StringVar(&n.address, "shop-address", "", "its address, `lines` with | between them")
	f.StringVar(&n.enrol, "enrol", "", "`file` that central terminal enrol-file made for this terminal")
	f.StringVar(&n.central, "central", "", "central's `URL`, of a terminal that is enrolled already")
	f.StringVar(&n.pin, "ca-pin", "", "`pin` of its CA, as provision show prints it")
	f.StringArrayVar(&n.alone, "stand-alone", nil, "no central: `file` of a public key that signs blocks; may be given several times")
	f.StringVar(&n.network, "network", "ethernet", "`kind`: ethernet, wifi or none; DHCP without --ip")
	f.StringVar(&n.ip, "ip", "", "static `address` with its prefix, as 192.168.1.20/24")
	f.StringVar(&n.gateway, "gateway", "", "`address` of the gateway")
	f.StringVar(&n.dns, "dns", "", "`addresses` of name servers, with blanks between them")
	f.StringVar(&n.ssid, "wifi", "", "`name` of the Wi-Fi")
	f.StringVar(&n.psk, "wifi-passphrase", "", "its `passphrase`, in a CSV file; others on this machine see the words of a command")
	f.StringVar(&n.pskFile, "wifi-passphrase-file", "", "`file` of its passphrase, - for standard input")
	f.StringVar(&n.country, "wifi-country", "FR", "`country` whose rules the radio keeps")
	f.StringVar(&n.proxy, "proxy", "", "`URL` of a proxy on the way to central, as http://proxy.example:3128")
	f.StringVar(&n.scannerPath, "scanner-path", "/dev/grattoir/scanner", "the scanner's `port`")
	f.StringVar(&n.scannerControl, "scanner", "none", "the scanner's `make`: none, honeywell, datalogic, gm65 or ssi")
	f.IntVar(&n.scannerBaud, "scanner-baud", 9600, "the scanner's `speed`")
	f.StringVar(&n.printerPath, "printer-path", "/dev/grattoir/printer", "the printer's `port`")
	f.StringVar(&n.printerProfile, "printer", "generic-80", "the printer's `profile`: terminalctl printer profiles lists them")
	f.IntVar(&n.printerBaud, "printer-baud", 9600, "the printer's `speed`")
	f.BoolVar(&n.signOn, "sign-on", false, "operators sign on with a PIN")
	f.BoolVar(&n.scaled, "accept-scaled", false, "a demonstration terminal")
	f.Int64Var(&n.serial, "serial", 0, "`number` of this file among those for this terminal, rising; 0 for the seconds since 1970")
}

// made is one file that provision new has written.
type made struct {
	Terminal string `json:"terminal"`
	Serial   int64  `json:"serial"`
	File     string `json:"file"`
	Mark     string `json:"mark"`
}

func provisionNewCommand() *cobra.Command {
	var n wanted
	var key, out, list string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new --name NAME --shop-name SHOP --enrol FILE --key FILE.key --out FILE",
		Short: "Make the signed file that turns a card into one shop's terminal",
		Long: `Make one signed file of all that a card needs to become a shop's terminal: its name, the
shop, the network, scanner and printer, the language, and the enrolment file that central made
(central terminal enrol-file). Nothing of it asks a network. The enrolment's code works once,
so carry the file like one; a Wi-Fi passphrase is in no file, only the key made of it.

With --csv there is a file for each row, written into the folder --out. The first row names the
columns: these flags without their dashes. What has no column is as the flags say.

A later file for the same terminal has a higher serial and changes it: a new network, another
printer. It needs no enrolment: --central and --ca-pin take its place.`,
		Example: `  terminalctl provision new --name shop-0042 --shop-name "Tabac de la Gare" --shop-address "1 place de la Gare|29000 Quimper" --enrol shop-0042.enrol --key keys/provisioning.key --out shop-0042.provision
  terminalctl provision new --name shop-0042 --shop-name "Tabac de la Gare" --enrol shop-0042.enrol --network wifi --wifi Livebox-1234 --wifi-passphrase-file - --key keys/provisioning.key --out shop-0042.provision
  terminalctl provision new --csv shops.csv --key keys/provisioning.key --out cards`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if key == "" || out == "" {
				return cli.Usagef("--key and --out are needed: the secret key that may provision, and the file\nTry: %s --help", cmd.CommandPath())
			}
			signer, err := readProvisioner(key)
			if err != nil {
				return err
			}
			var all []made
			if list == "" {
				var one made
				one, err = n.make(cmd.InOrStdin(), signer, out)
				all = []made{one}
			} else {
				all, err = n.rows(cmd.Flags(), list, signer, out)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), all)
			}
			for _, m := range all {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, serial %d\n", m.File, m.Terminal, m.Serial); err != nil {
					return err
				}
			}
			return nil
		},
	}
	n.flags(cmd.Flags())
	cmd.Flags().StringVar(&key, "key", "", "secret key that may provision, a `file` of central key new")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, or the folder with --csv; a file that exists is never overwritten")
	cmd.Flags().StringVar(&list, "csv", "", "`file` with a row for each shop")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// readProvisioner reads a secret signing key; its errors show nothing of it.
func readProvisioner(path string) (note.Signer, error) {
	text, err := cli.ReadBounded(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s holds no secret signing key in note format: make one with central key new", path)
	}
	return signer, nil
}

const maxShops = 4 << 20

// rows makes a file for each row. All rows are read and judged before the first file is
// written, so that a mistake in the last one leaves no half of a batch.
func (n wanted) rows(set *pflag.FlagSet, path string, signer note.Signer, folder string) ([]made, error) {
	text, err := cli.ReadBounded(path, maxShops)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff")))
	head, err := r.Read()
	if err != nil {
		return nil, cli.Usagef("%s: want a first row that names the columns: %v", path, err)
	}
	type row struct {
		sheet provision.Sheet
		file  string
	}
	var sheets []row
	seen := map[string]int{}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cli.Usagef("%s: %v", path, err)
		}
		line, _ := r.FieldPos(0)
		one := n
		flags := pflag.NewFlagSet("row", pflag.ContinueOnError)
		one.flags(flags)
		set.Visit(func(f *pflag.Flag) {
			if flags.Lookup(f.Name) != nil && f.Value.Type() != "stringArray" {
				err = errors.Join(err, flags.Set(f.Name, f.Value.String()))
			}
		})
		for i, name := range head {
			name = strings.TrimSpace(name)
			switch {
			case flags.Lookup(name) == nil:
				return nil, cli.Usagef("%s: the column %.40q is none: they are called as the flags of provision new", path, name)
			case strings.TrimSpace(fields[i]) != "":
				if flags.Set(name, strings.TrimSpace(fields[i])) != nil { // its text may quote a secret
					err = errors.Join(err, fmt.Errorf("%s does not fit", name))
				}
			}
		}
		if one.enrol != "" && !filepath.IsAbs(one.enrol) {
			one.enrol = filepath.Join(filepath.Dir(path), one.enrol)
		}
		var sheet provision.Sheet
		if err == nil {
			sheet, err = one.sheet(nil)
		}
		if before, twice := seen[sheet.Terminal]; err == nil && twice {
			err = fmt.Errorf("%s stands in line %d too", sheet.Terminal, before)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, line, err)
		}
		seen[sheet.Terminal] = line
		sheets = append(sheets, row{sheet, filepath.Join(folder, sheet.Terminal+".provision")})
	}
	if len(sheets) == 0 {
		return nil, cli.Usagef("%s has no row below the first", path)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	var all []made
	for _, s := range sheets {
		m, err := writeSheet(s.sheet, signer, s.file)
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (n wanted) make(in io.Reader, signer note.Signer, out string) (made, error) {
	sheet, err := n.sheet(in)
	if err != nil {
		return made{}, cli.Exit(cli.Usage, err)
	}
	return writeSheet(sheet, signer, out)
}

func writeSheet(sheet provision.Sheet, signer note.Signer, out string) (made, error) {
	signed, err := provision.Sign(sheet, signer)
	if err != nil {
		return made{}, err
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return made{}, fmt.Errorf("%w (a file that exists is never overwritten: name another, or move it away)", err)
	}
	_, err = f.Write(signed)
	return made{sheet.Terminal, sheet.Serial, out, sheet.Mark()}, errors.Join(err, f.Sync(), f.Close())
}

// sheet joins what was said; in gives the passphrase of --wifi-passphrase-file -.
func (n wanted) sheet(in io.Reader) (s provision.Sheet, err error) {
	s = provision.Sheet{Terminal: n.name, Serial: n.serial, Issued: time.Now().UTC().Truncate(time.Second),
		Shop: provision.Shop{ID: n.shopID, Name: n.shopName, Address: []string{}}}
	if s.Serial == 0 {
		s.Serial = s.Issued.Unix()
	}
	if n.address != "" {
		s.Shop.Address = strings.Split(n.address, "|")
	}
	if s.Network, err = n.net(in); err != nil {
		return s, err
	}
	if err := n.belongs(&s); err != nil {
		return s, err
	}
	if s.Config, err = n.config(s); err != nil {
		return s, err
	}
	_, err = s.Text() // what it lacks is said before a file is made
	return s, err
}

func (n wanted) net(in io.Reader) (out provision.Network, err error) {
	out = provision.Network{Kind: provision.Kind(n.network), Proxy: n.proxy}
	if n.ip != "" {
		if out.Address, err = netip.ParsePrefix(n.ip); err != nil {
			return out, fmt.Errorf("--ip %.60q: want an address with its prefix, as 192.168.1.20/24", n.ip)
		}
	}
	if n.gateway != "" {
		if out.Gateway, err = netip.ParseAddr(n.gateway); err != nil {
			return out, fmt.Errorf("--gateway %.60q: want an address, as 192.168.1.1", n.gateway)
		}
	}
	for _, text := range strings.Fields(n.dns) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return out, fmt.Errorf("--dns %.60q: want addresses, as 9.9.9.9", text)
		}
		out.DNS = append(out.DNS, a)
	}
	if n.ssid == "" {
		return out, nil
	}
	passphrase := n.psk
	switch {
	case n.pskFile == "-" && in != nil:
		text, err := io.ReadAll(io.LimitReader(in, 128))
		if err != nil {
			return out, err
		}
		passphrase = string(text)
	case n.pskFile != "":
		text, err := cli.ReadBounded(n.pskFile, 128)
		if err != nil {
			return out, err
		}
		passphrase = string(text)
	}
	out.WiFi = &provision.Station{SSID: n.ssid, Country: n.country}
	if out.WiFi.Key, err = provision.PassphraseKey(n.ssid, strings.TrimRight(passphrase, "\r\n")); err != nil {
		return out, fmt.Errorf("--wifi: %w", err)
	}
	return out, nil
}

// belongs says whom the terminal belongs to: central by its enrolment file, or nobody.
func (n wanted) belongs(s *provision.Sheet) error {
	switch given := []bool{n.enrol != "", n.central != "" || n.pin != "", len(n.alone) > 0}; {
	case !given[0] && !given[1] && !given[2], given[0] && given[2], given[1] && given[2], given[0] && given[1]:
		return errors.New("say whom the terminal belongs to, by one of --enrol FILE, --central URL with --ca-pin PIN, --stand-alone KEY")
	case given[2]:
		for _, path := range n.alone {
			key, err := cli.ReadPublicKey(path)
			if err != nil {
				return err
			}
			s.Keys = append(s.Keys, key)
		}
		return nil
	case given[1]:
		s.Central = &provision.Central{URL: n.central, Pin: strings.ToLower(n.pin)}
		return nil
	}
	text, err := cli.ReadBounded(n.enrol, wire.MaxEnrolFile)
	if err != nil {
		return err
	}
	f, err := readEnrolment(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("--enrol %s: %w", n.enrol, err)
	case f.Terminal != s.Terminal:
		return fmt.Errorf("--enrol %s: it is of %.64q, not of %.64q", n.enrol, f.Terminal, s.Terminal)
	case len(f.SealKeys) == 0:
		return fmt.Errorf("--enrol %s: central trusted no key that signs blocks when it made it, so the terminal would not start: central block publish --trust, then a new enrol-file", n.enrol)
	case time.Now().After(f.Expires):
		return fmt.Errorf("--enrol %s: its code ended on %s: make a new one with central terminal enrol-file", n.enrol, f.Expires.UTC().Format(time.DateOnly))
	}
	pin := wire.PinOf(f.CA.RawSubjectPublicKeyInfo)
	s.Central, s.Enrolment = &provision.Central{URL: f.Central, Pin: hex.EncodeToString(pin[:])}, string(text)
	return nil
}

// readEnrolment reads an enrolment file and holds its signature against the key that it
// names; the sheet's own signature says that this is the right central.
func readEnrolment(text string) (wire.EnrolFile, error) {
	body, _, _ := strings.Cut(text, "\n\n")
	f, err := wire.ParseEnrolFile(body + "\n")
	if err != nil {
		return f, err
	}
	v, err := note.NewVerifier(f.CentralKey)
	if err == nil {
		_, err = note.Open([]byte(text), note.VerifierList(v))
	}
	return f, err
}

// config is terminald's configuration, in its typed form.
func (n wanted) config(s provision.Sheet) (string, error) {
	name, text := "the shipped example", configs.TerminalExample
	if n.base != "" {
		var err error
		if text, err = cli.ReadBounded(n.base, maxConfig); err != nil {
			return "", err
		}
		name = n.base
	}
	c, err := configs.ParseTerminal(name, text)
	if err != nil {
		return "", err
	}
	c.Name, c.Language = n.name, n.language
	c.Shop.Name, c.Shop.Address = n.shopName, s.Shop.Address
	c.Scanner.Path, c.Scanner.Control, c.Scanner.Baud = n.scannerPath, n.scannerControl, n.scannerBaud
	c.Printer.Path, c.Printer.Profile, c.Printer.Baud = n.printerPath, n.printerProfile, n.printerBaud
	c.SignOn, c.AcceptScaled = c.SignOn || n.signOn, c.AcceptScaled || n.scaled
	c.StandAlone, c.Keys, c.ClaimKey, c.Central = s.Central == nil, nil, "", configs.Central{}
	if s.Central != nil {
		c.Central = configs.Central{URL: s.Central.URL, Proxy: s.Network.Proxy}
	}
	for i := range s.Keys {
		c.Keys = append(c.Keys, provision.KeyFile(i)) // beside the configuration
	}
	c.Signatures = max(1, min(c.Signatures, len(c.Keys)))
	for _, path := range []string{c.Printer.Profiles, c.Shop.Logo, c.Register.Key} {
		if path != "" && !filepath.IsAbs(path) {
			return "", fmt.Errorf("%s names the file %s, which a provisioning file does not carry: give it as the image has it, with its whole path", name, path)
		}
	}
	if c.Printer.Profiles == "" {
		if _, err := stationery.Config(c); err != nil {
			return "", err
		}
	}
	out, err := c.Encode()
	return string(out), err
}

const maxConfig = 1 << 20

// sheetAnswer is a sheet as it is shown: no secret is in it.
type sheetAnswer struct {
	SignedBy []string        `json:"signed_by"`
	Mark     string          `json:"mark"`
	Enrols   *time.Time      `json:"enrols_until,omitempty"` // the end of its code
	Sheet    provision.Sheet `json:"sheet"`
}

func provisionShowCommand() *cobra.Command {
	var keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE --key PUB",
		Short: "Say what a provisioning file will make of a card, without its secrets",
		Example: `  terminalctl provision show shop-0042.provision --key keys/provisioning.pub
  terminalctl provision show shop-0042.provision --key keys/provisioning.pub --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			sheet, by, _, err := readSheet(args[0], keys)
			if err != nil {
				return err
			}
			a := sheetAnswer{SignedBy: by, Mark: sheet.Mark(), Sheet: sheet.Public()}
			if sheet.Enrolment != "" {
				f, err := readEnrolment(sheet.Enrolment)
				if err != nil {
					return err
				}
				a.Enrols = new(f.Expires.UTC())
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			return a.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that may provision, a `file`; may be given several times")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// readSheet reads a provisioning file and verifies it.
func readSheet(path string, keys []string) (s provision.Sheet, by []string, signed []byte, err error) {
	ring, err := provisionRing(keys)
	if err != nil {
		return s, nil, nil, err
	}
	if signed, err = cli.ReadBounded(path, provision.MaxNote); err != nil {
		return s, nil, nil, err
	}
	if s, by, err = provision.Open(signed, ring); err != nil {
		err = cli.Exit(cli.Refused, fmt.Errorf("%s: %w", path, err))
	}
	return s, by, signed, err
}

func provisionRing(keys []string) (manifest.Keys, error) {
	if len(keys) == 0 {
		return manifest.Keys{}, cli.Usagef("--key is missing: name the public key that may provision terminals")
	}
	return readKeys(keys)
}

func (a sheetAnswer) print(w io.Writer) error {
	s := a.Sheet
	c, err := configs.ParseTerminal("the configuration in it", []byte(s.Config))
	if err != nil {
		return err
	}
	rows := [][2]string{{"terminal", s.Terminal}, {"serial", strconv.FormatInt(s.Serial, 10)}, {"issued", s.Issued.Format(time.RFC3339)}, {"signed by", strings.Join(a.SignedBy, ", ")},
		{"shop", strings.Join(append([]string{cmp.Or(s.Shop.ID, s.Terminal) + ": " + s.Shop.Name}, s.Shop.Address...), ", ")}, {"language", c.Language}, {"network", describeNetwork(s.Network)}}
	if s.Central == nil {
		rows = append(rows, [2]string{"central", "none, it stands alone"})
	} else {
		rows = append(rows, [2]string{"central", s.Central.URL + ", CA " + s.Central.Pin})
	}
	switch {
	case a.Enrols != nil:
		rows = append(rows, [2]string{"enrolment", "in it, once, until " + a.Enrols.Format(time.RFC3339)})
	case s.Central != nil:
		rows = append(rows, [2]string{"enrolment", "not in it: the terminal is enrolled already"})
	}
	rows = append(rows, [2]string{"scanner", fmt.Sprintf("%s, %s, %d baud", c.Scanner.Path, c.Scanner.Control, c.Scanner.Baud)},
		[2]string{"printer", fmt.Sprintf("%s, %s, %d baud", c.Printer.Path, c.Printer.Profile, c.Printer.Baud)}, [2]string{"mark", a.Mark})
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%-10s %s\n", r[0], cli.Line(r[1])); err != nil {
			return err
		}
	}
	return nil
}

func describeNetwork(n provision.Network) string {
	text := string(n.Kind)
	if n.WiFi != nil {
		text += fmt.Sprintf(" %q (%s)", n.WiFi.SSID, n.WiFi.Country)
	}
	switch {
	case n.Address.IsValid():
		text += fmt.Sprintf(", %s by %s", n.Address, n.Gateway)
	case n.Kind != provision.None:
		text += ", DHCP"
	}
	for _, a := range n.DNS {
		text += ", name server " + a.String()
	}
	if n.Proxy != "" {
		text += ", proxy " + n.Proxy
	}
	return text
}
