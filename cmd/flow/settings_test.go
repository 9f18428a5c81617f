package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		args string
		want string
	}{
		"a port of zero":   {nil, "--port 0", "--port must be from 1 to 65535, got 0"},
		"a port too large": {map[string]string{"FLOW_PORT": "65536"}, "", "--port must be from 1 to 65535, got 65536"},
		"a word for a port": {
			map[string]string{"FLOW_PORT": "x"},
			"",
			`FLOW_PORT: "x" is not a valid --port: strconv.ParseInt: parsing "x": invalid syntax`,
		},
		"no host":            {nil, "--host=", "--host must not be empty"},
		"a negative timeout": {nil, "--timeout -1s", "--timeout must not be negative, got -1s"},
		"one certificate":    {nil, "--ca-cert a", "--ca-cert needs --tls-cert and --tls-key as well"},
		"two certificates":   {map[string]string{"FLOW_CA_CERT": "a"}, "--tls-key k", "--ca-cert and --tls-key needs --tls-cert as well"},
		"both ways":          {nil, "--insecure --ca-cert a --tls-cert b --tls-key c", "--insecure and certificates can't be used together"},
		"missing files": {
			nil, "--ca-cert /none/a --tls-cert b --tls-key c", "authorities to trust: open /none/a: no such file or directory",
		},
		"a missing directory": {map[string]string{"CERTDIR": "/none"}, "", "authorities to trust: open /none/ca.crt: no such file or directory"},
		"another machine": {
			nil,
			"-H flow.example",
			"flow.example is not this machine: give --ca-cert, --tls-cert and --tls-key, or --insecure to talk plain text",
		},
		"an address of others": {
			map[string]string{"FLOW_HOST": "10.1.2.3"},
			"",
			"10.1.2.3 is not this machine: give --ca-cert, --tls-cert and --tls-key, or --insecure to talk plain text",
		},
		"all addresses": {
			nil, "-H ::", ":: is not this machine: give --ca-cert, --tls-cert and --tls-key, or --insecure to talk plain text",
		},
		"nobody there": {nil, "-H 127.0.0.1 -P 1", "rack list: no server at 127.0.0.1:1: connection refused"},
		"the flag wins": {
			map[string]string{"FLOW_HOST": "flow.example", "FLOW_PORT": "x"},
			"-H localhost -P 1",
			"rack list: no server at localhost:1: connection refused",
		},
		"this machine by IPv6": {nil, "-H [::1] -P 1", "rack list: no server at [::1]:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := flow(t.Context(), test.env, "", append([]string{"rack", "list"}, strings.Fields(test.args)...)...)
			first, _, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || !strings.HasPrefix(first, "Error: "+test.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestNoAnswerInTimeIsSaidSo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts
	_, port, _ := net.SplitHostPort(l.Addr().String())
	got := flow(t.Context(), nil, "", "rack", "list", "-P", port, "--timeout", "50ms")
	if want := "Error: rack list: no answer from localhost:" + port + " in time: see --timeout\n"; got.code != exitError || got.err != want {
		t.Errorf("%+v", got)
	}
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool, own := authority(t, dir)
	s := httptest.NewUnstartedServer(stocked().handler())
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	authority(t, other)
	three := func(dir string) string {
		return "--ca-cert " + dir + "/ca.crt --tls-cert " + dir + "/tls.crt --tls-key " + dir + "/tls.key"
	}
	for name, test := range map[string]struct {
		env  map[string]string
		args string
		want string
	}{
		"by flags": {nil, three(dir), ""},
		"by environment": {
			map[string]string{"FLOW_CA_CERT": dir + "/ca.crt", "FLOW_TLS_CERT": dir + "/tls.crt", "FLOW_TLS_KEY": dir + "/tls.key"},
			"",
			"",
		},
		"by directory": {map[string]string{"CERTDIR": dir}, "", ""},
		"another name": {map[string]string{"CERTDIR": dir}, "--server-name flow.test", ""},
		"a name it does not have": {
			map[string]string{"CERTDIR": dir},
			"--server-name else.test",
			"rack list: server at 127.0.0.1:" + u.Port() + " is not trusted: ",
		},
		"an authority we do not know": {
			map[string]string{"CERTDIR": other}, "", "rack list: server at 127.0.0.1:" + u.Port() + " is not trusted: ",
		},
		"an authority it does not know": {nil, "--ca-cert " + dir + "/ca.crt --tls-cert " + other + "/tls.crt --tls-key " + other + "/tls.key",
			"rack list: 127.0.0.1:" + u.Port() + ": "},
		"a key of another certificate": {
			nil, "--ca-cert " + dir + "/ca.crt --tls-cert " + dir + "/tls.crt --tls-key " + other + "/tls.key", "own certificate ",
		},
		"an empty authority file": {
			nil,
			"--ca-cert " + dir + "/tls.key --tls-cert " + dir + "/tls.crt --tls-key " + dir + "/tls.key",
			"authorities to trust: ",
		},
		"plain text": {nil, "", "rack list: server at 127.0.0.1:" + u.Port() + " hung up: it may want certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"rack", "list", "-H", "127.0.0.1", "-P", u.Port()}, strings.Fields(test.args)...)
			got := flow(t.Context(), test.env, "", args...)
			if test.want == "" {
				if got.code != exitOK || !strings.Contains(got.out, "rack-1") {
					t.Errorf("%+v", got)
				}
			} else if got.code != exitError || !strings.HasPrefix(got.err, "Error: "+test.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTLSToAServerInPlainTextIsSaidSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority(t, dir)
	env := stocked().env(t)
	env["CERTDIR"] = dir
	got := flow(t.Context(), env, "", "rack", "list")
	want := "Error: rack list: server at 127.0.0.1:" + env["FLOW_PORT"] + " does not speak TLS\n"
	if got.code != exitError || got.err != want {
		t.Errorf("%+v", got)
	}
	if got := flow(t.Context(), env, "", "rack", "list", "--insecure"); got.code != exitOK {
		t.Errorf("--insecure does not leave the directory aside: %+v", got)
	}
}

// authority makes an authority and one certificate of it, good for server and client, as files in a directory.
func authority(t *testing.T, dir string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	caKey, key := newKey(t), newKey(t)
	valid := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			BasicConstraintsValid: true,
		}
	}
	ca := valid(1, "authority of "+dir)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	leaf := valid(2, "flow")
	leaf.DNSNames, leaf.IPAddresses = []string{"flow.test"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	write := func(name, kind string, der []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	anchors := write("ca.crt", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	cert := write("tls.crt", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	private := write("tls.key", "EC PRIVATE KEY", der, err)
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(anchors)
	return pool, pair
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
