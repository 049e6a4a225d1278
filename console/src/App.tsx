import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useRoute } from "./router";
import { screenOf } from "./screens";
import { isSignedIn, start, useSession } from "./session";
import { Bar } from "./shell/Bar";
import { EndedNotice } from "./shell/EndedNotice";
import { SignIn } from "./shell/SignIn";
import { Failure, Loading } from "./ui/states";

export function App() {
  const session = useSession();
  const queries = useQueryClient();
  useEffect(() => {
    if (session.state === "signedOut") queries.clear(); // another caller may see less
    if (session.state === "signedIn") void queries.invalidateQueries();
  }, [session.state, queries]);

  switch (session.state) {
    case "starting":
      return <Loading />;
    case "failed":
      return (
        <main className="signin">
          <Failure error={session.error} retry={() => void start()} />
        </main>
      );
    case "signedOut":
      return <SignIn />;
  }
  return (
    <>
      <Screens />
      {!isSignedIn() && <EndedNotice />}
    </>
  );
}

function Screens() {
  const { path } = useRoute();
  const screen = screenOf(path);
  useEffect(() => {
    document.title = screen.title + " · FluxGate";
  }, [screen.title]);
  return (
    <>
      <Bar current={screen} />
      <main id="screen" className="screen" tabIndex={-1}>
        <screen.Component key={screen.path} />
      </main>
      <footer className="foot">
        <a href="./licences.txt">Licences</a>
      </footer>
    </>
  );
}
