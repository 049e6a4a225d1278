import { Button, useMantineColorScheme } from "@mantine/core";
import { href } from "../router";
import { screens, type Screen } from "../screens";
import { signOut, useWho } from "../session";

// Bar is the navigation and the session, at the top of every screen.
export function Bar({ current }: { current: Screen }) {
  return (
    <header className="bar">
      <a className="skip" href="#screen" onClick={skip}>
        Skip to the content
      </a>
      <a className="brand" href={href("/")}>
        <img src="logo.svg" alt="" width={18} height={18} />
        FluxGate
      </a>
      <nav className="nav" aria-label="Screens">
        {screens.map((s) => (
          <a key={s.path} href={href(s.path)} aria-current={s === current ? "page" : undefined}>
            {s.title}
          </a>
        ))}
      </nav>
      <div className="session">
        <WhoAmI />
        <ColorScheme />
      </div>
    </header>
  );
}

// The fragment of the address is the route, so the link moves the focus itself.
function skip(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById("screen")?.focus();
}

function WhoAmI() {
  const who = useWho();
  return (
    <>
      <span className="breakable" title={"Roles: " + (who.roles.join(", ") || "none")}>
        {who.name}
      </span>
      {who.name.startsWith("token:") || who.name.startsWith("oidc:") ? (
        <Button size="compact-xs" variant="default" onClick={signOut}>
          Sign out
        </Button>
      ) : null}
    </>
  );
}

const next = { auto: "light", light: "dark", dark: "auto" } as const;
const names = { auto: "system", light: "light", dark: "dark" } as const;
const signs = { auto: "◐", light: "☀", dark: "☾" } as const;

function ColorScheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const name = `Colour scheme: ${names[colorScheme]}`;
  return (
    <Button size="compact-xs" variant="default" aria-label={name} title={name} onClick={() => setColorScheme(next[colorScheme])}>
      <span aria-hidden>{signs[colorScheme]}</span>
    </Button>
  );
}
